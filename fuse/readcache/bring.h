/* BRING: the server asks this node to stage a whole file, for `kairan stage` on some node (msgs.def).  Loop thread.
 *
 * The file is brought as read-ahead is: programs that read meanwhile come first, and it goes on after the answer.
 */
#ifndef KR_FUSE_BRING_H
#define KR_FUSE_BRING_H

struct kr_brings;
struct kr_mount;

/* Registers BRING; before the rpc starts. */
struct kr_brings *kr_brings_new(struct kr_mount *mount);
/* Before the files stop: what is asked is not answered any more. Freed when the loop has run. NULL is fine. */
void kr_brings_free(struct kr_brings *brings);

#endif
