/* Open files and directories of a view. */
#ifndef KR_FUSE_VIEW_FILE_H
#define KR_FUSE_VIEW_FILE_H

#include "fuse/view/view_priv.h"

struct kr_view_file {
	struct kr_link link;         /* in kr_view.files */
	struct kr_view_inode *inode; /* got */
	int fd;
	bool writes; /* it may be written to */
	bool whole;  /* its inode is charged as a whole for it */
	bool maps;   /* stores into a mapping may change the file past the daemon and the kernel's attributes */
};

/* At the mount's end: those that no RELEASE has ended, because programs still have them. */
void kr_view_files_end(struct kr_view *view);
void kr_view_dirs_end(struct kr_view *view);

static inline struct kr_view_file *kr_view_file(const struct fuse_file_info *fi)
{
	return (struct kr_view_file *)(uintptr_t)fi->fh;
}

#endif
