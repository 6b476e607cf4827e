/* Notes the address of a mount's control socket, so that the kairan command finds it without touching the mount.  A
 * note is a small file named MAJOR:MINOR of the mount's device.  It holds the daemon's process id, a space, and the
 * socket's path to the end of the file, of any bytes.
 *
 * Notes of root's mounts lie in /run/kairan.  Those of other users, and of the root of a user namespace, lie in
 * $XDG_RUNTIME_DIR/kairan, /run/user/UID/kairan or /tmp/kairan-UID.
 */
#ifndef KR_FUSE_CONTROL_ADDRESS_H
#define KR_FUSE_CONTROL_ADDRESS_H

#include "fuse/daemon/mountpoint.h"

/* For the daemon: notes that the mount's control socket is at SOCKET. -errno with a reason. */
int kr_control_address_write(unsigned dev_major, unsigned dev_minor, const char *socket);
/* Removes the note.  The kernel gives the device's number to another mount as soon as this one is gone; the note of
 * that mount stays. */
void kr_control_address_remove(unsigned dev_major, unsigned dev_minor, const char *socket);
/* For the tool: the socket of a mount (owned) and the daemon's process id.  -ENOENT: there is no note. */
int kr_control_address_read(const struct kr_mounted *mounted, char **ret_socket, int *ret_pid);
/* The same for each note of this user's mounts.  VISIT borrows SOCKET. */
void kr_control_address_for_each(
	void (*visit)(unsigned dev_major, unsigned dev_minor, const char *socket, int pid, void *context),
	void *context);

#endif
