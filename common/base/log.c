/* One event, one line, one write(2): lines of several threads or processes never mix.
 *
 * Standard error gets "kairand: warning: ..." (information without a level word).  The file gets time, process and
 * level too.  systemd's journal as standard error gets "<4>...".  Control bytes (a file's name may hold any) appear as
 * '?', so that no name can forge a line.
 */
#include "common/base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "common/base/util.h"

static const char *program_name = "kairan";
static _Atomic enum kr_log_level highest_level = KR_LOG_INFO;
static _Atomic int file_fd = -1;
static _Atomic bool to_syslog;
static bool to_journal;

static const struct {
	const char *file_word, *stderr_word;
	int priority;
} levels[] = {
	[KR_LOG_ERROR] = {"error", "error: ", LOG_ERR},
	[KR_LOG_WARNING] = {"warning", "warning: ", LOG_WARNING},
	[KR_LOG_INFO] = {"info", "", LOG_INFO},
	[KR_LOG_DEBUG] = {"debug", "debug: ", LOG_DEBUG},
};

/* Whether standard error is systemd's journal, as its variable says (systemd.exec(5)): device and inode. */
static bool is_journal(void)
{
	const char *text = getenv("JOURNAL_STREAM");
	struct stat stat_buffer;
	uintmax_t dev, ino;

	return text && sscanf(text, "%ju:%ju", &dev, &ino) == 2 && fstat(STDERR_FILENO, &stat_buffer) == 0 &&
		stat_buffer.st_dev == dev && stat_buffer.st_ino == ino;
}

void kr_log_init(const char *program, enum kr_log_level level)
{
	program_name = program;
	atomic_store(&highest_level, level);
	to_journal = is_journal();
}

void kr_log_set_file(int fd)
{
	atomic_store(&file_fd, fd);
}

void kr_log_use_syslog(void)
{
	openlog(program_name, LOG_PID | LOG_NDELAY, LOG_DAEMON);
	atomic_store(&to_syslog, true);
}

enum kr_log_level kr_log_level(void)
{
	return atomic_load_explicit(&highest_level, memory_order_relaxed);
}

static void blank_control_bytes(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = '?';
}

/* A log that cannot be written to must not stop the daemon: errors end here. */
static void write_line(int fd, const char *line, size_t length)
{
	while (write(fd, line, length) < 0 && errno == EINTR)
		;
}

static void write_to_stderr(enum kr_log_level level, const char *text)
{
	char line[2304];
	int length;

	/* The form of sd-daemon(3); the journal adds the name and the level. */
	if (to_journal)
		length = snprintf(line, sizeof(line), "<%d>%s\n", levels[level].priority, text);
	else
		length = snprintf(line, sizeof(line), "%s: %s%s\n", program_name, levels[level].stderr_word, text);

	write_line(STDERR_FILENO, line, KR_MIN((size_t)KR_MAX(length, 0), sizeof(line) - 1));
}

static void write_to_file(int fd, enum kr_log_level level, const char *text)
{
	char line[2304], when[32];
	struct timespec now;
	struct tm utc;
	int length;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &utc);
	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &utc);
	length = snprintf(line, sizeof(line), "%s.%03ldZ %s[%d] %s: %s\n", when, now.tv_nsec / 1000000, program_name,
		(int)getpid(), levels[level].file_word, text);
	write_line(fd, line, KR_MIN((size_t)KR_MAX(length, 0), sizeof(line) - 1));
}

void kr_log(enum kr_log_level level, const char *format, ...)
{
	int saved_errno = errno, fd = atomic_load(&file_fd);
	char text[2048];
	va_list arguments;

	if (level > kr_log_level())
		return;
	va_start(arguments, format);
	if (vsnprintf(text, sizeof(text), format, arguments) < 0)
		text[0] = '\0';
	va_end(arguments);
	blank_control_bytes(text);
	if (atomic_load(&to_syslog))
		syslog(levels[level].priority, "%s", text);
	else
		write_to_stderr(level, text);
	if (fd >= 0)
		write_to_file(fd, level, text);
	errno = saved_errno;
}
