/* Key files on disk, which no other user may read or write.  Blocks. */
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/auth/key.h"
#include "common/base/util.h"

static int check_file(int fd, const char *path, size_t *ret_size)
{
	struct stat st;

	if (fstat(fd, &st))
		return kr_fail_errno(-errno, "key file %s", path);
	if (!S_ISREG(st.st_mode))
		return kr_fail(-EPERM, "key file %s: not a regular file", path);
	if (st.st_uid != geteuid())
		return kr_fail(-EPERM,
			"key file %s belongs to user %u, and this program runs as user %u: it is not used (chown it, "
			"or use a copy of your own)",
			path, st.st_uid, geteuid());
	if (st.st_mode & 077)
		return kr_fail(-EPERM,
			"key file %s can be read or written by others (mode %04o): it is not used (chmod 600 it; if "
			"others may have read it, make a new key)",
			path, st.st_mode & 07777);
	if (st.st_size >= KR_KEY_TEXT)
		return kr_fail(-EBADMSG, "%s: not a key file (it is too large)", path);
	*ret_size = (size_t)st.st_size;
	return 0;
}

int kr_key_load(const char *path, struct kr_key **ret_key)
{
	/* NONBLOCK: open(2) of a pipe must not block. */
	KR_AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	char text[KR_KEY_TEXT];
	size_t size = 0;
	int err;

	if (fd < 0)
		return kr_fail_errno(-errno, "key file %s", path);
	err = check_file(fd, path, &size);
	if (err)
		return err;
	err = kr_pread_full(fd, text, size, 0);
	if (err)
		err = kr_fail_errno(err, "key file %s", path);
	else
		err = kr_key_parse(text, size, path, ret_key);
	sodium_memzero(text, sizeof(text));
	return err;
}

int kr_key_save(const struct kr_key *key, const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600), err, closed;
	char text[KR_KEY_TEXT];
	size_t length;

	if (fd < 0)
		return errno == EEXIST ?
			kr_fail(-EEXIST,
				"%s exists, and is not overwritten (choose another name, or remove it if no "
				"machine uses it)",
				path) :
			kr_fail_errno(-errno, "key file %s", path);
	length = kr_key_format(key, text);
	err = fchmod(fd, 0600) ? -errno :
				 kr_pwrite_full(fd, text, length, 0); /* whatever the umask, and a default ACL */
	sodium_memzero(text, sizeof(text));
	if (!err && fsync(fd))
		err = -errno;
	closed = kr_close(fd);
	if (!err)
		err = closed ? closed :
			       kr_sync_directory_of(AT_FDCWD, path); /* so that the name survives a crash too */
	if (err) {
		unlink(path);
		return kr_fail_errno(err, "key file %s", path);
	}
	return 0;
}
