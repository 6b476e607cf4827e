/* PREFETCH: the server asks this node to stage a whole file, for `kairan stage` on some node (msgs.def).  Loop thread.
 *
 * The file is brought as read-ahead is: programs that read meanwhile come first, and it goes on after the answer.
 */
#ifndef KR_FUSE_PREFETCH_H
#define KR_FUSE_PREFETCH_H

struct kr_prefetches;
struct kr_mount;

/* Registers PREFETCH; before the rpc starts. */
struct kr_prefetches *kr_prefetches_new(struct kr_mount *mount);
/* Before the files stop: the node answers no request any more. Freed when the loop has run. NULL is fine. */
void kr_prefetches_free(struct kr_prefetches *prefetches);

#endif
