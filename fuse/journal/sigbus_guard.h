/* Stores into the mapped index that outlive a broken disk.  The filesystem may be unable to give a page for writing:
 * after an I/O error, remounted read-only after errors, or shut down.  Such a page raises SIGBUS, which would end the
 * daemon and with it the mount.
 */
#ifndef KR_FUSE_SIGBUS_GUARD_H
#define KR_FUSE_SIGBUS_GUARD_H

/* Makes SIGBUS survivable inside kr_sigbus_guard, for the whole process; more than once is fine.  Elsewhere it ends the
 * process as ever. */
void kr_sigbus_guard_install(void);
/* Calls BODY(CONTEXT), which touches mapped memory and nothing else that would have to be undone (no lock, no
 * allocation). 0, or -EIO when it was broken off.  Any thread; not within itself. */
int kr_sigbus_guard(void (*body)(void *context), void *context);

#endif
