/* Removing a directory with all that it holds. */
#ifndef KR_FUSE_VIEW_TREE_H
#define KR_FUSE_VIEW_TREE_H

/* Removes NAME below DIRECTORY, of any depth and breadth, without following links; 0 also if there is none.  -errno:
 * some names may be left.  Blocks for as long as the disk needs. */
int kr_tree_remove(int directory, const char *name);

#endif
