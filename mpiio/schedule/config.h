/* Whether the layer works at all: $KAIRAN_MPIIO. */
#ifndef KR_MPIIO_CONFIG_H
#define KR_MPIIO_CONFIG_H

enum kr_mode {
	KR_MODE_OFF,   /* every file is MPI's */
	KR_MODE_AUTO,  /* files on a kairan mount are ours */
	KR_MODE_FORCE, /* every regular file is ours */
};

/* KAIRAN_MPIIO=off|auto|force, read once; auto without it.  Any other value warns once and counts as off.  Any thread.
 */
enum kr_mode kr_config_mode(void);

#endif
