/* Between disk.c and wrap.c: what a system call did.  NULL objects are not ours and ignored. */
#ifndef KR_TEST_CRASH_DISK_PRIV_H
#define KR_TEST_CRASH_DISK_PRIV_H

#include "test/crash/disk.h"

struct object;

struct object *disk_object(int fd);
bool disk_has(int dirfd, const char *name);
/* BYTES NULL: zeros that do not make the file longer. */
void disk_wrote(struct object *object, uint64_t offset, const void *bytes, size_t length);
void disk_resized(struct object *object, uint64_t size);
void disk_synced(struct object *object);
void disk_named(int dirfd, const char *path, bool fresh);
void disk_removed(int dirfd, const char *name);
void disk_renamed(int dirfd, const char *name, int to_dirfd, const char *to_name, bool exchange);
void disk_mapped(int fd, void *at, size_t length);
void disk_unmapped(void *at);
struct object *disk_mapped_object(void *at);

#endif
