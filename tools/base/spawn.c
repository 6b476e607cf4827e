/* See spawn.h. */
#include "tools/base/spawn.h"

#include <errno.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int kr_tool_spawn(const char *const *argv, int in, int out, pid_t *ret_pid)
{
	extern char **environ;
	posix_spawn_file_actions_t actions;
	char *const *words;
	int err = posix_spawn_file_actions_init(&actions);

	if (err)
		return -err;
	memcpy(&words, &argv, sizeof(argv)); /* posix_spawnp changes none of them */
	if (in >= 0)
		err = posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
	if (err == 0 && out >= 0)
		err = posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	if (err == 0)
		err = posix_spawnp(ret_pid, argv[0], &actions, NULL, words, environ);
	posix_spawn_file_actions_destroy(&actions);
	return -err;
}

int kr_tool_wait(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EIO;
}
