/* What is simulated; each runs the machines of ring/ and server/ that decide it on real nodes. */
#ifndef KR_TEST_GROWTH_WORKLOADS_H
#define KR_TEST_GROWTH_WORKLOADS_H

#include <stdbool.h>

#include "test/growth/hosts.h"

struct kr_workload {
	struct kr_model model;
	uint32_t nodes;
	uint32_t rings;    /* names of rings among the nodes, all of the same size */
	bool gateways;     /* each ring has a server of its own: a node of one more ring, which the server feeds */
	bool all;          /* rings that are like the last one are simulated node by node, too */
	uint64_t size;     /* bytes of the file that is read, rounded up to blocks */
	uint64_t record;   /* bytes of a record that is written */
	uint64_t records;  /* of each node */
	uint32_t requests; /* of a node before it joins a pipeline, one after the other: names, open */
};

struct kr_outcome {
	double seconds;         /* until the last node has done */
	double first_seconds;   /* of a read: until the last node has its first block */
	double server_bytes;    /* file data that the server has sent or received */
	double server_messages; /* that the server has sent or received, without file data */
	double decision_us;     /* real processor time in the server's machines, for all nodes */
};

/* All nodes open one file at once and read it from beginning to end. */
struct kr_outcome kr_growth_read(const struct kr_workload *workload);
/* Each node has written every NODES-th record of one file, all close it at once.  GATEWAYS counts for nothing. */
struct kr_outcome kr_growth_flush(const struct kr_workload *workload);
/* All nodes have opened one file for reading; then one more writes to it. */
struct kr_outcome kr_growth_recall(const struct kr_workload *workload);

#endif
