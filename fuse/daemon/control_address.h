/* Notes the address of a mount's control socket, so that the kairan command finds it without touching the mount.  A
 * note is a small file named MAJOR:MINOR of the mount's device.  It holds the daemon's process id, a space, and the
 * socket's path to the end of the file, of any bytes.
 *
 * Beside the note of a root's mount lies the socket for all users, users-MAJOR:MINOR.
 *
 * Notes of root's mounts lie in /run/kairan.  Those of other users, and of the root of a user namespace, lie in
 * $XDG_RUNTIME_DIR/kairan, /run/user/UID/kairan or /tmp/kairan-UID.
 */
#ifndef KR_FUSE_CONTROL_ADDRESS_H
#define KR_FUSE_CONTROL_ADDRESS_H

#include <sys/types.h>

#include "fuse/daemon/mountpoint.h"

enum { KR_CONTROL_PATH = 80 };

/* For the daemon: notes that the mount's control socket is at SOCKET. -errno with a reason. */
int kr_control_address_write(unsigned dev_major, unsigned dev_minor, const char *socket);
/* Removes the note.  The kernel gives the device's number to another mount as soon as this one is gone; the note of
 * that mount stays. */
void kr_control_address_remove(unsigned dev_major, unsigned dev_minor, const char *socket);
/* For the daemon: makes the socket at which all users may ask (control.h), bound, not listening.  The descriptor, or
 * -errno; -ENOENT: this user's mounts have none.  *RET_INODE: of its name. */
int kr_control_users_bind(unsigned dev_major, unsigned dev_minor, ino_t *ret_inode);
/* For the daemon of a mount without a local directory: makes the control socket beside the note, bound, not listening.
 * The descriptor and its path (owned), or -errno. */
int kr_control_owner_bind(unsigned dev_major, unsigned dev_minor, char **ret_path);
/* Removes its name, unless that is another mount's by now. */
void kr_control_users_remove(unsigned dev_major, unsigned dev_minor, ino_t inode);
/* For the tool: its path.  -ENOENT: this mount has none. */
int kr_control_users_socket(const struct kr_mounted *mounted, char path[KR_CONTROL_PATH]);
/* For the tool: the socket of a mount (owned) and the daemon's process id.  -ENOENT: there is no note. */
int kr_control_address_read(const struct kr_mounted *mounted, char **ret_socket, int *ret_pid);
/* The same for each note of this user's mounts.  VISIT borrows SOCKET. */
void kr_control_address_for_each(
	void (*visit)(unsigned dev_major, unsigned dev_minor, const char *socket, int pid, void *context),
	void *context);
/* Whether the daemon of this mount still runs. PID: from its status. */
bool kr_daemon_runs(int pid);
/* Whether it still runs because the kernel has not closed all that it had open: it executes nothing any more. */
bool kr_daemon_is_ending(int pid);

#endif
