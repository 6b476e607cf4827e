/* Errors with a reason: a function returns -errno and records a sentence that explains it.
 *
 * Each thread has one reason; the next failure overwrites it.  Libraries only record the reason.  The caller that
 * decides what the failure means (a daemon's main, a FUSE operation, a request handler) logs it once.
 */
#ifndef KR_COMMON_FAIL_H
#define KR_COMMON_FAIL_H

#include <assert.h>

/* Records a reason for ERR (negative errno) and yields ERR, so that `return kr_fail(-EIO, ...)` reads as one step.  A
 * macro, so that the compiler knows the value to be negative and follows which out-parameters were written. */
#define kr_fail(err, ...) \
	({ \
		const int kr_failed_ = (err); \
		assert(kr_failed_ < 0); \
		kr_fail_record(kr_failed_, __VA_ARGS__); \
		kr_failed_; \
	})

/* As kr_fail, with ": <strerror(err)>" added to the reason. */
#define kr_fail_errno(err, ...) \
	({ \
		const int kr_failed_ = (err); \
		assert(kr_failed_ < 0); \
		kr_fail_record_errno(kr_failed_, __VA_ARGS__); \
		kr_failed_; \
	})

void kr_fail_record(int err, const char *format, ...) __attribute__((format(printf, 2, 3)));
void kr_fail_record_errno(int err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The calling thread's last reason; never NULL.  Valid until this thread's next kr_fail. */
const char *kr_fail_reason(void);

#endif
