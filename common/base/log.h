/* The daemons' log: one line per event, to standard error and, once detached from the terminal, to syslog.
 * Thread-safe; never blocks on anything but the log's own descriptor.
 */
#ifndef KR_COMMON_LOG_H
#define KR_COMMON_LOG_H

#include <stdbool.h>

enum kr_log_level { KR_LOG_ERROR, KR_LOG_WARNING, KR_LOG_INFO, KR_LOG_DEBUG };

/* PROGRAM (borrowed for ever) prefixes every line; lines above LEVEL are dropped. */
void kr_log_init(const char *program, enum kr_log_level level);
/* A file that gets every line too (already open, append mode); -1 for none. */
void kr_log_set_file(int fd);
/* From now on syslog(3) instead of standard error. */
void kr_log_use_syslog(void);
enum kr_log_level kr_log_level(void);
void kr_log(enum kr_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define kr_log_error(...) kr_log(KR_LOG_ERROR, __VA_ARGS__)
#define kr_log_warn(...) kr_log(KR_LOG_WARNING, __VA_ARGS__)
#define kr_log_info(...) kr_log(KR_LOG_INFO, __VA_ARGS__)
#define kr_log_debug(...) \
	do { \
		if (kr_log_level() >= KR_LOG_DEBUG) \
			kr_log(KR_LOG_DEBUG, __VA_ARGS__); \
	} while (0)

#endif
