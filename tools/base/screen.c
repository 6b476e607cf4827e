/* See screen.h. */
#include "tools/base/screen.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "common/base/util.h"

/* The alternate screen without a cursor, and back.  No wrapping: a line that is too long is cut off. */
#define ENTER "\033[?1049h\033[?25l\033[?7l"
#define LEAVE "\033[?7h\033[?25h\033[?1049l"

enum { WIDTH = 80, HEIGHT = 24 };

static struct termios before, during;
static volatile sig_atomic_t is_open, resized;

/* Writes TEXT; a signal's handler may call it, too. */
static void say(const char *text)
{
	ssize_t ignored = write(STDOUT_FILENO, text, strlen(text));

	(void)ignored;
}

static void enter(void)
{
	tcsetattr(STDIN_FILENO, TCSADRAIN, &during);
	say(ENTER);
	is_open = true;
}

static void leave(void)
{
	if (!is_open)
		return;
	is_open = false;
	say(LEAVE);
	tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
}

static void on_resize(int number)
{
	(void)number;
	resized = true;
}

/* Leaves the screen; then the signal does what it does by default. */
static void on_end(int number)
{
	sigset_t set;

	leave();
	signal(number, SIG_DFL);
	raise(number);
	sigemptyset(&set);
	sigaddset(&set, number);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	/* A stopped program goes on here. */
	signal(number, on_end);
	enter();
	resized = true;
}

int kr_screen_open(void)
{
	static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGABRT, SIGSEGV, SIGBUS, SIGPIPE};
	struct sigaction resize = {.sa_handler = on_resize};

	if (!isatty(STDOUT_FILENO) || tcgetattr(STDIN_FILENO, &before) < 0)
		return -ENOTTY;
	during = before;
	during.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	during.c_cc[VMIN] = 1;
	during.c_cc[VTIME] = 0;
	sigaction(SIGWINCH, &resize, NULL);
	for (size_t i = 0; i < KR_ARRAY_SIZE(ends); i++)
		signal(ends[i], on_end);
	atexit(leave);
	enter();
	return 0;
}

void kr_screen_close(void)
{
	leave();
}

void kr_screen_size(unsigned *ret_width, unsigned *ret_height)
{
	struct winsize size = {0};

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || !size.ws_col || !size.ws_row)
		size = (struct winsize){.ws_col = WIDTH, .ws_row = HEIGHT};
	*ret_width = size.ws_col;
	*ret_height = size.ws_row;
}

/* In one write, so that nothing flickers. */
void kr_screen_show(const char *text, char mark)
{
	unsigned width, height, line = 0;
	char *all = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&all, &size);

	if (!out)
		return;
	kr_screen_size(&width, &height);
	fputs("\033[H", out);
	for (const char *at = text; *at && line < height; line++) {
		int length = (int)strcspn(at, "\n"), marked = *at == mark;

		fprintf(out, "%s\033[K%s%.*s\033[0m", line ? "\r\n" : "", marked ? "\033[7m" : "", length - marked,
			at + marked);
		at += length + (at[length] == '\n');
	}
	/* After a character in the last column the cursor still stands there, and would erase it. */
	if (line < height)
		fputs("\r\n\033[J", out);
	if (fclose(out) == 0)
		say(all);
	free(all);
}

int kr_screen_key(unsigned ms)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	unsigned char key;
	int ready = resized ? -1 : poll(&input, 1, (int)ms);

	if (resized) {
		resized = false;
		return 1;
	}
	if (ready <= 0)
		return 0;
	return read(STDIN_FILENO, &key, 1) == 1 ? key : -1;
}
