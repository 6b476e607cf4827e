#include "server/export/inode_paths.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/base/list.h"
#include "common/base/table.h"
#include "common/base/util.h"
#include "server/export/export_priv.h"

/* At least so long between two walks, and WALK_SHARE times as long as the last one took. */
static const uint64_t walk_pause_ns = 10 * KR_NS_PER_S;
enum { WALK_SHARE = 20 };

struct id {
	uint64_t ino;
	struct kr_time birth;
};

struct place {
	struct kr_table_link link; /* by file */
	struct id file, parent;
	char name[]; /* "": FILE may have names, but no operation has met them */
};

struct kr_inode_paths {
	const struct kr_export *export;
	struct id root;
	pthread_mutex_t lock; /* guards the table; never held over a system call */
	struct kr_table table;
	pthread_rwlock_t moving; /* shared while a file is looked for, exclusive during a rename; before `lock` */
	pthread_mutex_t walking; /* held by the one thread that walks the export; before `lock` */
	/* Written under `walking`. */
	_Atomic uint64_t walk_began_ns; /* of the last complete walk; 0: none */
	_Atomic uint64_t next_walk_ns;
};

static struct id id_of(const struct kr_identity *identity)
{
	return (struct id){identity->ino, identity->birth};
}

static bool same(struct id a, struct id b)
{
	return a.ino == b.ino && kr_time_compare(a.birth, b.birth) == 0;
}

struct kr_inode_paths *kr_inode_paths_new(const struct kr_export *export, const struct kr_identity *root)
{
	struct kr_inode_paths *paths = kr_xcalloc(1, sizeof(*paths));
	pthread_rwlockattr_t attr;

	pthread_rwlockattr_init(&attr);
	pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&paths->moving, &attr);
	pthread_rwlockattr_destroy(&attr);
	paths->export = export;
	paths->root = id_of(root);
	pthread_mutex_init(&paths->lock, NULL);
	pthread_mutex_init(&paths->walking, NULL);
	kr_table_init(&paths->table);
	return paths;
}

void kr_inode_paths_free(struct kr_inode_paths *paths)
{
	if (!paths)
		return;
	kr_table_free_all(&paths->table, offsetof(struct place, link));
	pthread_mutex_destroy(&paths->lock);
	pthread_mutex_destroy(&paths->walking);
	pthread_rwlock_destroy(&paths->moving);
	free(paths);
}

static struct place *new_place(struct id file, struct id parent, const char *name)
{
	size_t size = strlen(name) + 1;
	struct place *place = kr_xmalloc(sizeof(*place) + size);

	place->file = file;
	place->parent = parent;
	memcpy(place->name, name, size);
	return place;
}

/* The first known name of FILE, or NULL; with NAMELESS its place without a name. Under the lock. */
static struct place *find(struct kr_inode_paths *paths, struct id file, bool nameless)
{
	return KR_TABLE_FIND(struct place, place, &paths->table, kr_hash_u64(file.ino), link,
		same(place->file, file) && (place->name[0] == '\0') == nameless);
}

/* What is known to be the same as WANTED.  Under the lock. */
static struct place *find_same(struct kr_inode_paths *paths, const struct place *wanted)
{
	return KR_TABLE_FIND(struct place, place, &paths->table, kr_hash_u64(wanted->file.ino), link,
		same(place->file, wanted->file) && same(place->parent, wanted->parent) &&
			strcmp(place->name, wanted->name) == 0);
}

static void drop_place(struct kr_inode_paths *paths, struct place *place)
{
	kr_table_remove(&paths->table, &place->link);
	free(place);
}

/* Drops the known place that equals WANTED.  Under the lock. */
static void drop_same(struct kr_inode_paths *paths, const struct place *wanted)
{
	struct place *place = find_same(paths, wanted);

	if (place)
		drop_place(paths, place);
}

void kr_inode_paths_learn(struct kr_inode_paths *paths, const struct kr_identity *file,
	const struct kr_identity *parent, const char *name, bool directory)
{
	struct place *place = new_place(id_of(file), id_of(parent), name), *old;
	KR_SCOPED_LOCK(&paths->lock);

	if (find_same(paths, place)) {
		free(place);
		return;
	}
	/* A directory has one name, so the known one is old. */
	while ((directory && (old = find(paths, place->file, false))) || (old = find(paths, place->file, true)))
		drop_place(paths, old);
	kr_table_insert(&paths->table, &place->link, kr_hash_u64(file->ino));
}

void kr_inode_paths_forget(struct kr_inode_paths *paths, const struct kr_identity *file,
	const struct kr_identity *parent, const char *name, bool others)
{
	KR_AUTO_FREE struct place *wanted = new_place(id_of(file), id_of(parent), name);
	KR_SCOPED_LOCK(&paths->lock);

	drop_same(paths, wanted);
	if (others && !find(paths, wanted->file, false) && !find(paths, wanted->file, true))
		kr_table_insert(
			&paths->table, &new_place(wanted->file, wanted->parent, "")->link, kr_hash_u64(file->ino));
}

/* --- from a file up to the root, and down again ----------------------------------------------- */

struct step {
	struct kr_link link;
	struct place *place; /* a copy */
};

static void free_steps(struct kr_list *steps)
{
	struct step *step;

	while ((step = KR_LIST_POP(steps, struct step, link))) {
		free(step->place);
		free(step);
	}
}

/* The names from the root to FILE. False when one is unknown (or they form a cycle). */
static bool steps_to(struct kr_inode_paths *paths, struct id file, struct kr_list *steps)
{
	KR_SCOPED_LOCK(&paths->lock);
	size_t left = paths->table.count;

	while (!same(file, paths->root)) {
		struct place *place = find(paths, file, false);
		struct step *step;

		if (!place || left-- == 0)
			return false;
		step = kr_xcalloc(1, sizeof(*step));
		step->place = new_place(place->file, place->parent, place->name);
		kr_list_prepend(steps, &step->link);
		file = place->parent;
	}
	return true;
}

/* Opens step by step; *RET_BAD is the step that leads to another file. */
static int follow(struct kr_inode_paths *paths, struct kr_list *steps, int *ret_fd, struct place **ret_bad)
{
	KR_AUTO_FD int fd = openat(paths->export->root_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct kr_identity found;
	struct step *step;
	int next, r;

	if (fd < 0)
		return kr_fail_errno(-errno, "opening the export's root");
	KR_LIST_FOR_EACH(step, steps, link) {
		*ret_bad = step->place;
		r = kr_entry_child(fd, step->place->name, &next);
		if (r < 0)
			return r == -ENOENT || r == -ENOTDIR || r == -EXDEV ? -ESTALE : r;
		close(fd);
		fd = next;
		r = kr_entry_inode(fd, &found);
		if (r < 0)
			return r;
		if (!same(id_of(&found), step->place->file))
			return -ESTALE;
	}
	*ret_fd = fd;
	fd = -1;
	return 0;
}

static void forget_bad(struct kr_inode_paths *paths, const struct place *bad)
{
	KR_SCOPED_LOCK(&paths->lock);

	drop_same(paths, bad);
}

/* Opens by the known names and forgets wrong ones. */
static int open_known(struct kr_inode_paths *paths, struct id file, int *ret_fd)
{
	struct place *bad = NULL;
	struct kr_list steps;
	int r;

	for (;;) {
		kr_list_init(&steps);
		r = steps_to(paths, file, &steps) ? follow(paths, &steps, ret_fd, &bad) : -ENODATA;
		if (r == -ESTALE)
			forget_bad(paths, bad);
		free_steps(&steps);
		if (r != -ESTALE)
			return r;
	}
}

/* --- the walk --------------------------------------------------------------------------------- */

struct directory {
	struct kr_link link;
	struct id id;
};

static void enqueue(struct kr_list *queue, struct id id)
{
	struct directory *directory = kr_xcalloc(1, sizeof(*directory));

	directory->id = id;
	kr_list_append(queue, &directory->link);
}

static void meet(struct kr_inode_paths *paths, int dirfd, struct id parent, const char *name, struct kr_list *queue)
{
	struct kr_identity file, in = {.kind = KR_FID_INODE, .ino = parent.ino, .birth = parent.birth};
	KR_AUTO_FD int fd = -1;
	struct stat st;

	/* What other gateways keep in theirs has been removed. */
	if (same(parent, paths->root) && kr_private_dir_is(paths->export, name) &&
		strcmp(name, paths->export->private_name) != 0)
		return;
	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || kr_entry_child(dirfd, name, &fd) < 0 ||
		kr_entry_inode(fd, &file) < 0 || fstatat(fd, "", &st, AT_EMPTY_PATH) < 0)
		return;
	kr_inode_paths_learn(paths, &file, &in, name, S_ISDIR(st.st_mode));
	if (S_ISDIR(st.st_mode))
		enqueue(queue, id_of(&file));
}

static void walk_directory(struct kr_inode_paths *paths, struct id id, struct kr_list *queue)
{
	KR_AUTO_FD int path_fd = -1;
	struct dirent *entry;
	DIR *stream;

	/* A removed or forbidden directory is skipped. */
	if (open_known(paths, id, &path_fd) < 0)
		return;
	stream = kr_opendir_at(path_fd, ".");
	if (!stream)
		return;
	while ((entry = readdir(stream)))
		meet(paths, path_fd, id, entry->d_name, queue);
	closedir(stream);
}

static void walk(struct kr_inode_paths *paths)
{
	struct kr_list queue;
	struct directory *directory;

	kr_list_init(&queue);
	enqueue(&queue, paths->root);
	while ((directory = KR_LIST_POP(&queue, struct directory, link))) {
		walk_directory(paths, directory->id, &queue);
		free(directory);
	}
}

void kr_inode_paths_begin_move(struct kr_inode_paths *paths)
{
	pthread_rwlock_wrlock(&paths->moving);
}

void kr_inode_paths_end_move(struct kr_inode_paths *paths)
{
	pthread_rwlock_unlock(&paths->moving);
}

static int open_settled(struct kr_inode_paths *paths, struct id file, int *ret_fd)
{
	int r;

	pthread_rwlock_rdlock(&paths->moving);
	r = open_known(paths, file, ret_fd);
	pthread_rwlock_unlock(&paths->moving);
	return r;
}

static bool is_nameless(struct kr_inode_paths *paths, struct id file)
{
	KR_SCOPED_LOCK(&paths->lock);

	return find(paths, file, true);
}

/* It has no name: a walk has not found any. */
static void settle_nameless(struct kr_inode_paths *paths, struct id file)
{
	KR_SCOPED_LOCK(&paths->lock);
	struct place *place = find(paths, file, true);

	if (place)
		drop_place(paths, place);
}

/* Walks the export for FILE, unless a walk has begun since ASKED_NS.  A file that the server has no reason to believe
 * in is worth a walk now and then, and no wait for one: others may remove files all the time. */
static void walk_for(struct kr_inode_paths *paths, struct id file, uint64_t asked_ns)
{
	bool must = atomic_load(&paths->walk_began_ns) == 0 || is_nameless(paths, file);
	uint64_t began_ns, now_ns;

	if (must)
		pthread_mutex_lock(&paths->walking);
	else if (atomic_load(&paths->next_walk_ns) > asked_ns || pthread_mutex_trylock(&paths->walking) != 0)
		return;
	began_ns = kr_clock_ns();
	if (atomic_load(&paths->walk_began_ns) < asked_ns && (must || atomic_load(&paths->next_walk_ns) <= began_ns)) {
		walk(paths);
		now_ns = kr_clock_ns();
		atomic_store(&paths->walk_began_ns, began_ns);
		atomic_store(&paths->next_walk_ns, now_ns + KR_MAX(walk_pause_ns, WALK_SHARE * (now_ns - began_ns)));
		settle_nameless(paths, file);
	}
	pthread_mutex_unlock(&paths->walking);
}

int kr_inode_paths_open(struct kr_inode_paths *paths, const struct kr_identity *file, int *ret_fd)
{
	uint64_t asked_ns = kr_clock_ns();
	int r;

	r = open_settled(paths, id_of(file), ret_fd);
	if (r != -ENODATA)
		return r;
	walk_for(paths, id_of(file), asked_ns);
	r = open_settled(paths, id_of(file), ret_fd);
	return r == -ENODATA ? kr_fail(-ESTALE, "inode %llu is not in the export", (unsigned long long)file->ino) : r;
}
