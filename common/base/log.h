/* The daemons' log: one line per event, to standard error and, once detached from the terminal, to syslog.
 * Any thread; a call blocks on nothing but the log's own descriptor. */
#ifndef KR_COMMON_LOG_H
#define KR_COMMON_LOG_H

#include <stdbool.h>

enum kr_log_level { KR_LOG_ERROR, KR_LOG_WARNING, KR_LOG_INFO, KR_LOG_DEBUG };

/* Each line begins with PROGRAM (borrowed for ever).  The log drops lines above LEVEL. */
void kr_log_init(const char *program, enum kr_log_level level);
/* Each line also goes to the file FD (already open, append mode); -1: to none. */
void kr_log_set_file(int fd);
/* From now on lines go to syslog(3) instead of standard error. */
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
