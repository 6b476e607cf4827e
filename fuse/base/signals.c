/* See signals.h. */
#include "fuse/base/signals.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/util.h"
#include "fuse/base/lent.h"

#define BIT(number) (UINT64_C(1) << ((number)-1))

/* Without a handler these signals do not end a program. */
static const uint64_t harmless = BIT(SIGCHLD) | BIT(SIGCONT) | BIT(SIGURG) | BIT(SIGWINCH) | BIT(SIGSTOP) |
	BIT(SIGTSTP) | BIT(SIGTTIN) | BIT(SIGTTOU);
static const uint64_t ending = BIT(SIGHUP) | BIT(SIGINT) | BIT(SIGQUIT) | BIT(SIGTERM);

static bool find_set(const char *status, const char *name, uint64_t *ret_set)
{
	const char *line = strstr(status, name);

	return line && sscanf(line + strlen(name), ":%" SCNx64, ret_set) == 1;
}

enum kr_signals kr_signals_parse(const char *status)
{
	uint64_t of_thread, of_process, blocked, ignored, caught, pending;

	if (!find_set(status, "\nSigPnd", &of_thread) || !find_set(status, "\nShdPnd", &of_process) ||
		!find_set(status, "\nSigBlk", &blocked) || !find_set(status, "\nSigIgn", &ignored) ||
		!find_set(status, "\nSigCgt", &caught))
		return KR_SIGNALS_END;
	pending = (of_thread | of_process) & ~blocked & ~ignored;
	/* A signal that ends a program has become a SIGKILL for each of its threads, unless the program dumps core. */
	if (pending & ~caught & ~harmless)
		return KR_SIGNALS_DEADLY;
	return pending & ending ? KR_SIGNALS_END : KR_SIGNALS_OTHER;
}

enum kr_signals kr_signals_pending(pid_t thread)
{
	char path[64], text[8192];
	KR_AUTO_FD int fd = -1;
	ssize_t length;

	if (kr_lent()) /* the borrower has looked */
		return KR_SIGNALS_DEADLY;
	if (thread <= 0)
		return KR_SIGNALS_END;
	snprintf(path, sizeof(path), "/proc/%d/status", (int)thread);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	length = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (length < 0)
		return KR_SIGNALS_END;
	text[length] = '\0';
	return kr_signals_parse(text);
}
