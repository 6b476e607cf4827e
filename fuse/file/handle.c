/* See handle.h. */
#include "fuse/file/handle.h"

#include <stdlib.h>

#include "fuse/file/locks.h"

static void released(struct kr_task *task)
{
	kr_handle_release(KR_CONTAINER_OF(task, struct kr_handle, release_task));
}

struct kr_handle *kr_handle_new(struct kr_file *file)
{
	struct kr_handle *handle = kr_xcalloc(1, sizeof(*handle));

	handle->file = file;
	handle->release_task.fn = released;
	pthread_mutex_lock(&file->lock);
	handle->errors_seen = file->error_count;
	pthread_mutex_unlock(&file->lock);
	file->open.handles++;
	kr_list_append(&file->open.list, &handle->link);
	return handle;
}

void kr_handle_release(struct kr_handle *handle)
{
	struct kr_file *file = handle->file;

	kr_locks_release_handle(file, handle);
	pthread_mutex_lock(&file->lock);
	if (handle->mappable && --file->pages.mappable == 0)
		kr_lease_state_sealed(
			&file->holder); /* RELEASE comes after the last munmap, which writes what was stored */
	pthread_mutex_unlock(&file->lock);
	kr_list_remove(&handle->link);
	file->open.handles--;
	kr_file_step(file);
	kr_file_put(file);
	free(handle);
}

void kr_handles_abandon(struct kr_file *file)
{
	struct kr_handle *handle;

	while ((handle = KR_LIST_POP(&file->open.list, struct kr_handle, link)))
		free(handle);
}
