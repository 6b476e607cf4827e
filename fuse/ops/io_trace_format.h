/* The trace file (LOCAL/trace) of one mount.  This comment is the specification, format 1.
 *
 * Lines of JSON, in the order in which the daemon writes them, about every 5 s and at the end.  The first is
 *   {"kairan trace": 1, "node": "n1", "mount": "/mnt/data", "started": seconds since 1970}
 * Each other line is an array.  Times are microseconds.  FIRST and LAST, since `started`, are when the first request
 * came and when the last one was answered.
 *   ["P", PID, START, UID, "COMMAND", "CGROUP", FIRST, LAST, [REQUESTS of each kind], [TIME of each kind],
 *         [TIME of each wait]]
 *     A process: requests that it has made since the line before, and how long they took together.  PID and START
 *     (clock ticks since boot) name the process.  START 0 is not known: the process is that of an earlier line with
 *     this PID, if there is one.  COMMAND is the name that it has given itself or got from its program
 *     (/proc/PID/comm), "" not known.  PID 0 stands for the kernel, and for processes of other PID namespaces; PID -1
 *     for the processes of an interval in which there were more than KR_IO_TRACE_PROCESSES.
 *     Kinds and waits: the enums below, in their order.
 *   ["F", "ID", "PATH", CREATES, OPENS, READS, READ BYTES, SEQUENTIAL READ BYTES, BYTES FROM ANOTHER NODE, BYTES FROM
 *         THE SERVER, WRITES, WRITTEN BYTES, SEQUENTIAL WRITTEN BYTES, BYTES COPIED FROM IT, BYTES COPIED TO IT, END,
 *         FIRST, LAST, TIME]
 *     What the process of the P line before has done with a file.  ID is the file's identity at the server, the same on
 *     all nodes.  PATH is from the mount's root on, "" not known.  Sequential bytes are those of reads (writes) that
 *     begin the file, or that go on where another of this process ends, among the last 8; the first of two counts,
 *     too. Bytes from another node or the server are those of reads that had to wait for blocks of them; what
 *     read-ahead had brought in time does not count.  The server copies by itself (copy_file_range).  END: the end of
 *     the last byte read or written.  TIME: of opening, reading, writing, flushing and syncing it.  Files beyond
 *     KR_IO_TRACE_FILES in an interval are one, with ID and PATH "".
 *   ["S", FIRST, LAST, SERVER PROCESSORS, SERVER DISK, NODE PROCESSORS, REQUESTS, ROUND TRIP, RECEIVED, SENT]
 *     What was busy from FIRST to LAST, about half a second.  SERVER PROCESSORS: how long the server's threads ran, or
 *     waited for a processor, together.  SERVER DISK: how long at least one of its jobs for programs that wait was
 *     blocked, by the disk that it exports from; a job counts when it ends.  NODE PROCESSORS: as the server's, of this
 *     mount's daemon.  REQUESTS: how many this daemon has sent to the server and other nodes.  ROUND TRIP: the shortest
 *     to the server.  RECEIVED, SENT: bytes of this daemon's connections.
 *   ["E", LAST]
 *     The trace was stopped, or the mount has ended.  A file without it was cut off, by a crash or a full disk.
 * Lines about the same process, and about the same file of a process, add up.  A reader ignores lines that it cannot
 * parse, and elements behind those that it knows. */
#ifndef KR_FUSE_IO_TRACE_FORMAT_H
#define KR_FUSE_IO_TRACE_FORMAT_H

enum {
	KR_IO_TRACE_FORMAT = 1,
	KR_IO_TRACE_PROCESSES = 4096, /* in an interval */
	KR_IO_TRACE_FILES = 32768,    /* of all processes together, in an interval */
};

enum kr_io_trace_kind {
	KR_IO_TRACE_NAMES, /* lookup, attributes, directories, changes of names, and all that is not below */
	KR_IO_TRACE_OPEN,  /* open, create */
	KR_IO_TRACE_READ,
	KR_IO_TRACE_WRITE, /* also what copies, and reserves space */
	KR_IO_TRACE_SYNC,  /* the flush at close, fsync */
	KR_IO_TRACE_LOCK,
	KR_IO_TRACE_KINDS
};

/* The causes for which a request waits, one at a time. */
enum kr_wait {
	KR_WAIT_HERE, /* this machine: the daemon, its journal's disk and its cache's disk, and all that is not below */
	KR_WAIT_REQUEST, /* the server's answer: names, attributes, opens */
	KR_WAIT_LEASE,   /* a lease or a lock, also while the server recalls it from other nodes */
	KR_WAIT_SERVER,  /* blocks that come from the server */
	KR_WAIT_NODE,    /* blocks that come from another node */
	KR_WAIT_FLUSH,   /* this node's bytes, on their way to the server's file or disk */
	KR_WAIT_SPACE,   /* room in the journal */
	KR_WAITS
};

#define KR_WAIT_NAMES \
	{ \
		"here", "request", "lease", "server", "node", "flush", "space" \
	}

#endif
