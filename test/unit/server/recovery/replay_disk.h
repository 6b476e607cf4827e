/* The files of replay_world.h on a disk that loses its power: what a sync has brought there, and what the page cache
 * has. */
#ifndef KR_TEST_UNIT_REPLAY_DISK_H
#define KR_TEST_UNIT_REPLAY_DISK_H

#include <pthread.h>

#include "test/unit/server/recovery/replay_world.h"

/* What the disk is sure to have of the files: what was there when a sync began that has succeeded. Any thread. */
static struct {
	pthread_mutex_t lock;
	bool known; /* there are files */
	uint8_t bytes[WORLD_FILES][WORLD_SIZE];
} disk = {.lock = PTHREAD_MUTEX_INITIALIZER};

static inline void path_of(unsigned file, char path[160])
{
	snprintf(path, 160, "%s/%s", F.export_path, file_names[file]);
}

/* Zeros where it ends before. */
static inline void read_file(unsigned file, uint8_t bytes[WORLD_SIZE])
{
	char path[160];
	int fd;

	path_of(file, path);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	memset(bytes, 0, WORLD_SIZE);
	if (fd < 0)
		return;
	(void)!pread(fd, bytes, WORLD_SIZE, 0);
	close(fd);
}

static inline int disk_sync(void)
{
	pthread_mutex_lock(&disk.lock);
	for (unsigned file = 0; disk.known && file < WORLD_FILES; file++)
		read_file(file, disk.bytes[file]);
	pthread_mutex_unlock(&disk.lock);
	return 0;
}

static inline void disk_get(uint8_t ret_bytes[WORLD_FILES][WORLD_SIZE])
{
	pthread_mutex_lock(&disk.lock);
	memcpy(ret_bytes, disk.bytes, sizeof disk.bytes);
	pthread_mutex_unlock(&disk.lock);
}

/* The files have been made, and are empty. */
static inline void disk_begin(void)
{
	pthread_mutex_lock(&disk.lock);
	memset(disk.bytes, 0, sizeof disk.bytes);
	disk.known = true;
	pthread_mutex_unlock(&disk.lock);
}

static inline void disk_end(void)
{
	pthread_mutex_lock(&disk.lock);
	disk.known = false;
	pthread_mutex_unlock(&disk.lock);
}

/* Instead of libc's: this machine keeps its power, and syncs are not waited for. */
int fdatasync(int fd)
{
	(void)fd;
	return disk_sync();
}

int fsync(int fd)
{
	(void)fd;
	return disk_sync();
}

int syncfs(int fd)
{
	(void)fd;
	return disk_sync();
}

static inline void write_back(uint8_t bytes[WORLD_FILES][WORLD_SIZE])
{
	for (unsigned file = 0; file < WORLD_FILES; file++) {
		uint8_t now[WORLD_SIZE];
		char path[160];
		int fd;

		read_file(file, now);
		if (memcmp(now, bytes[file], WORLD_SIZE) == 0)
			continue; /* its ctime stays */
		path_of(file, path);
		fd = open(path, O_WRONLY | O_CLOEXEC);
		assert_true(fd >= 0 && pwrite(fd, bytes[file], WORLD_SIZE, 0) == WORLD_SIZE);
		close(fd);
	}
}

#endif
