/* Errors with a reason: a function returns -errno and leaves the sentence that explains it here.
 *
 * One reason per thread, overwritten by the next failure.  Libraries only record it; whoever decides what the failure
 * means (a daemon's main, a FUSE operation, a request handler) logs it once.
 */
#ifndef KR_COMMON_FAIL_H
#define KR_COMMON_FAIL_H

/* Records a reason for ERR (negative errno) and returns ERR, so that `return kr_fail(-EIO, ...)` reads as one step. */
int kr_fail(int err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* As kr_fail, with ": <strerror(err)>" added to the reason. */
int kr_fail_errno(int err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The calling thread's last reason; never NULL.  Valid until this thread's next kr_fail. */
const char *kr_fail_reason(void);

#endif
