/* What a local directory lies on: the filesystem's type, as the kernel's list of mounts names it.  Journal and cache
 * want a disk of the node.
 */
#ifndef KR_FUSE_LOCAL_PLACE_H
#define KR_FUSE_LOCAL_PLACE_H

enum kr_place_kind {
	KR_PLACE_DISK,    /* also a type that is not known here */
	KR_PLACE_MEMORY,  /* its files are lost when the machine stops */
	KR_PLACE_LAYER,   /* a container's, whose files are lost with the container */
	KR_PLACE_NETWORK, /* its files are on another machine */
	KR_PLACE_KAIRAN,
};
enum { KR_PLACE_TYPE = 64 };

/* The kind of a filesystem type ("ext4", "nfs4", "fuse.sshfs"). */
enum kr_place_kind kr_place_kind(const char *type);
/* The type of what FD lies on, "" if the kernel does not tell.  Returns its kind. */
enum kr_place_kind kr_place_of(int fd, char ret_type[KR_PLACE_TYPE]);

#endif
