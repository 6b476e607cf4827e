/* Listing a directory: the kernel's entries in the protocol's encoding. */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "server/export/export_priv.h"

/* An encoded entry is never longer than the kernel's, so the buffer suffices. */
enum { HEAD = 8 + 8 + 1 + 1, KERNEL_ENTRY_MAX = 280 };
_Static_assert((int)KERNEL_ENTRY_MAX <= (int)KR_READDIR_MIN, "the smallest buffer takes the longest entry");

struct kernel_entry {
	uint64_t ino;
	int64_t next;
	uint16_t length;
	uint8_t type;
	char name[];
};

/* The encoded entries. */
struct listing {
	const struct kr_export *root; /* if its root is listed, else NULL */
	uint8_t *bytes;
	size_t length;
	uint64_t numbering; /* kr_entry_numbering */
};

static void put_u64(uint8_t *bytes, uint64_t value)
{
	value = htobe64(value);
	memcpy(bytes, &value, sizeof(value));
}

static void put_entry(struct listing *listing, uint64_t ino, uint64_t next, uint8_t type, const char *name)
{
	uint8_t *p = listing->bytes + listing->length;
	size_t length = strlen(name);

	if (listing->root && kr_private_dir_is(listing->root, name))
		return;
	put_u64(p, ino);
	put_u64(p + 8, next);
	p[16] = type;
	p[17] = (uint8_t)length;
	memcpy(p + HEAD, name, length);
	listing->length += HEAD + length;
}

static void recode(struct listing *listing, const uint8_t *kernel, size_t length)
{
	struct kernel_entry entry;
	size_t at;

	for (at = 0; at < length; at += entry.length) {
		memcpy(&entry, kernel + at, sizeof(entry));
		put_entry(listing, entry.ino ^ listing->numbering, (uint64_t)entry.next, entry.type,
			(const char *)kernel + at + offsetof(struct kernel_entry, name));
	}
}

static int list(int fd, struct listing *listing, size_t size, bool *ret_end)
{
	KR_AUTO_FREE uint8_t *kernel = malloc(size);
	long length;

	if (!kernel)
		return kr_fail(-ENOMEM, "no memory to list a directory");
	*ret_end = false;
	while (!*ret_end && size - listing->length >= KERNEL_ENTRY_MAX) {
		length = syscall(SYS_getdents64, fd, kernel, size - listing->length);
		if (length < 0)
			return errno == ENOENT ? kr_fail_errno(-ESTALE, "listing") : kr_fail_errno(-errno, "listing");
		recode(listing, kernel, (size_t)length);
		*ret_end = length == 0;
	}
	return 0;
}

int kr_export_readdir(struct kr_export *export, const struct kr_cred *cred, const struct kr_fid *fid, uint64_t cookie,
	void *buffer, size_t size, size_t *ret_length, bool *ret_end)
{
	struct listing listing = {kr_fid_equal(fid, &export->root) ? export : NULL, buffer, 0, 0};
	struct kr_fd *directory;
	struct stat st;
	bool end = false;
	int r;

	if (size < KR_READDIR_MIN)
		return kr_fail(-EINVAL, "a listing of %zu bytes", size);
	if (cookie > INT64_MAX)
		return kr_fail(-EINVAL, "not a position in a directory");
	r = kr_entry_data(export, fid, KR_FD_CACHE_DIRECTORY, &directory);
	if (r < 0)
		return r;
	r = kr_export_may(export, cred, directory->fd, R_OK);
	if (r == 0 && lseek(directory->fd, (off_t)cookie, SEEK_SET) < 0)
		r = kr_fail_errno(-errno, "going to a position in a directory");
	if (r == 0 && fstat(directory->fd, &st) < 0)
		r = kr_fail_errno(-errno, "looking at a directory");
	if (r == 0)
		listing.numbering = kr_entry_numbering(export, directory->fd, st.st_dev);
	if (r == 0)
		r = list(directory->fd, &listing, KR_MIN(size, 65536), &end);
	kr_fd_cache_put(export->fds, directory);
	if (r < 0)
		return r;
	*ret_length = listing.length;
	*ret_end = end;
	return 0;
}
