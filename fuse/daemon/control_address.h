/* Where the control socket of a mount is written down, so that the kairan command finds it without touching the mount:
 * a small file named MAJOR:MINOR of the mount's device, in /run/kairan for root's mounts, else (or where root is that
 * of a user namespace) in $XDG_RUNTIME_DIR/kairan, /run/user/UID/kairan or /tmp/kairan-UID. It holds the daemon's
 * process id, a space, and the socket's path to its end, of whatever bytes.
 */
#ifndef KR_FUSE_CONTROL_ADDRESS_H
#define KR_FUSE_CONTROL_ADDRESS_H

#include "fuse/daemon/mountpoint.h"

/* For the daemon: notes that the mount's control socket is at SOCKET. -errno with a reason. */
int kr_control_address_write(unsigned dev_major, unsigned dev_minor, const char *socket);
/* Takes that back. The kernel gives the device's number to another mount as soon as this one is gone: what that one has
 * noted stays. */
void kr_control_address_remove(unsigned dev_major, unsigned dev_minor, const char *socket);
/* For the tool: the socket of a mount (owned) and the daemon's process id. -ENOENT: nothing is written down. */
int kr_control_address_read(const struct kr_mounted *mounted, char **ret_socket, int *ret_pid);
/* The same of all mounts of this user that are noted. SOCKET is borrowed by VISIT. */
void kr_control_address_for_each(
	void (*visit)(unsigned dev_major, unsigned dev_minor, const char *socket, int pid, void *context),
	void *context);

#endif
