/* FLUSH and its rounds on the server: wires round.c to sessions, streams (intake.c), writes (apply.c) and syncs (stable.c).
 *
 * Loop thread.  struct kr_sfile_data is this part's state of one file; CORE embeds it in struct kr_sfile as `data`.
 */
#ifndef KR_SERVER_FLUSH_H
#define KR_SERVER_FLUSH_H

#include "common/types.h"
#include "server/round.h"
#include "server/stable.h"

struct kr_data;
struct kr_sfile;
struct kr_session;
struct kr_intake;
struct kr_feed_pipeline;

struct kr_sfile_data {
	struct kr_data *owner;
	struct kr_sfile *file;
	struct kr_rounds rounds;
	struct kr_intake *intake;          /* of the chained round under way */
	struct kr_stable stable;
	struct kr_feed_pipeline *pipeline; /* NULL while nobody has joined */
	struct kr_link busy;               /* in the owner's list of files with rounds */
	struct kr_time mtime_rounds;       /* latest that rounds have set since somebody set it by hand */
	struct kr_time mtime_set;          /* by hand while a round was running */
	bool mtime_is_set, holds_file;
	bool clear_suid;                   /* of the running round */
	struct kr_time round_mtime;        /* of the running round's participants, the latest */
	uint64_t base_version;             /* the data's version before the running round */
	struct kr_attr after;              /* attributes after the last round, with the version */
};

/* For CORE's files.c: on the making and freeing of a struct kr_sfile. */
void kr_sfile_data_init(struct kr_sfile_data *data, struct kr_data *owner, struct kr_sfile *file);
void kr_sfile_data_fini(struct kr_sfile_data *data);

#endif
