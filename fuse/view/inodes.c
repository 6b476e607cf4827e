/* See inodes.h. */
#include "fuse/view/inodes.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/util.h"

enum { ROOT_NODEID = 1 };

struct kr_view_inodes {
	pthread_mutex_t lock;
	struct kr_table table;
	struct kr_view_inode *root;
	struct kr_space *space;
	struct kr_list idle; /* the least lately used first */
	uint32_t idle_count, idle_max;
	uint64_t leaving;
};

/* All below, unless said otherwise: the table's lock is held. */

static struct kr_view_inode *find(struct kr_view_inodes *inodes, uint64_t number)
{
	return KR_TABLE_FIND(
		struct kr_view_inode, inode, &inodes->table, kr_hash_u64(number), by_number, inode->number == number);
}

static void leave_idle(struct kr_view_inodes *inodes, struct kr_view_inode *inode)
{
	if (!kr_link_linked(&inode->idle))
		return;
	kr_list_remove(&inode->idle);
	inodes->idle_count--;
}

/* No operation uses the descriptor now. */
static void enter_idle(struct kr_view_inodes *inodes, struct kr_view_inode *inode)
{
	if (inode->fd < 0 || !inode->name || kr_link_linked(&inode->idle))
		return;
	kr_list_append(&inodes->idle, &inode->idle);
	if (++inodes->idle_count <= inodes->idle_max)
		return;
	inode = KR_LIST_ENTRY(inodes->idle.head.next, struct kr_view_inode, idle);
	leave_idle(inodes, inode);
	kr_close(inode->fd);
	inode->fd = -1;
}

static void drop_if_unused(struct kr_view_inodes *inodes, struct kr_view_inode *inode);

static void drop_name(struct kr_view_inodes *inodes, struct kr_view_inode *inode)
{
	struct kr_view_inode *parent = inode->parent;

	if (!inode->name)
		return;
	free(inode->name);
	inode->name = NULL;
	inode->parent = NULL;
	parent->children--;
	drop_if_unused(inodes, parent);
}

static void set_name(struct kr_view_inode *inode, struct kr_view_inode *parent, const char *name)
{
	inode->name = kr_xstrdup(name);
	inode->parent = parent;
	parent->children++;
}

static void drop_if_unused(struct kr_view_inodes *inodes, struct kr_view_inode *inode)
{
	if (inode->lookups || inode->busy || inode->children || inode == inodes->root)
		return;
	leave_idle(inodes, inode);
	kr_table_remove(&inodes->table, &inode->by_number);
	if (inode->fd >= 0)
		kr_close(inode->fd);
	if (inode->removed) {
		kr_space_settle(inodes->space, inode->charge, 0);
		kr_space_drop_inode(inodes->space);
		inodes->leaving--;
	}
	drop_name(inodes, inode);
	free(inode);
}

static struct kr_view_inode *add(struct kr_view_inodes *inodes, const struct stat *stat)
{
	struct kr_view_inode *inode = kr_xcalloc(1, sizeof(*inode));

	inode->number = stat->st_ino;
	inode->type = stat->st_mode & S_IFMT;
	inode->fd = -1;
	inode->charge = kr_space_charge(inodes->space, stat, false);
	kr_table_insert(&inodes->table, &inode->by_number, kr_hash_u64(inode->number));
	return inode;
}

/* Opens the inode's descriptor, and before it those of the directories above that are not open. */
static int open_by_name(struct kr_view_inodes *inodes, struct kr_view_inode *inode)
{
	while (inode->fd < 0) {
		struct kr_view_inode *top = inode;

		while (top->parent->fd < 0)
			top = top->parent;
		top->fd = openat(top->parent->fd, top->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		if (top->fd < 0)
			return errno == EMFILE ? -ENFILE : -errno;
		if (top != inode)
			enter_idle(inodes, top);
	}
	return 0;
}

static int use(struct kr_view_inodes *inodes, struct kr_view_inode *inode)
{
	int err;

	inode->busy++; /* so that it stays open */
	leave_idle(inodes, inode);
	err = open_by_name(inodes, inode);
	if (err == 0)
		return 0;
	inode->busy--;
	return err;
}

static void unuse(struct kr_view_inodes *inodes, struct kr_view_inode *inode)
{
	assert(inode->busy > 0);
	if (--inode->busy == 0) {
		enter_idle(inodes, inode);
		drop_if_unused(inodes, inode);
	}
}

/* --- for callers, which do not hold the lock ---------------------------------------------------- */

struct kr_view_inodes *kr_view_inodes_new(int root, struct kr_space *space, uint32_t descriptors)
{
	struct kr_view_inodes *inodes = kr_xcalloc(1, sizeof(*inodes));
	struct stat stat = {.st_mode = S_IFDIR};

	pthread_mutex_init(&inodes->lock, NULL);
	kr_table_init(&inodes->table);
	kr_list_init(&inodes->idle);
	inodes->space = space;
	inodes->idle_max = KR_MAX(descriptors, 1u);
	fstat(root, &stat);
	inodes->root = add(inodes, &stat);
	inodes->root->fd = root;
	return inodes;
}

void kr_view_inodes_free(struct kr_view_inodes *inodes)
{
	struct kr_view_inode *inode;

	if (!inodes)
		return;
	KR_TABLE_FOR_EACH(inode, &inodes->table, by_number) {
		if (inode->fd >= 0)
			kr_close(inode->fd);
		free(inode->name);
		free(inode);
	}
	kr_table_fini(&inodes->table);
	pthread_mutex_destroy(&inodes->lock);
	free(inodes);
}

pthread_mutex_t *kr_view_inodes_lock(struct kr_view_inodes *inodes)
{
	return &inodes->lock;
}

struct kr_view_inode *kr_view_inode(struct kr_view_inodes *inodes, uint64_t nodeid)
{
	return nodeid == ROOT_NODEID ? inodes->root : (struct kr_view_inode *)(uintptr_t)nodeid;
}

uint64_t kr_view_nodeid(const struct kr_view_inodes *inodes, const struct kr_view_inode *inode)
{
	return inode == inodes->root ? ROOT_NODEID : (uint64_t)(uintptr_t)inode;
}

struct kr_view_inode *kr_view_inode_found(struct kr_view_inodes *inodes, struct kr_view_inode *parent, const char *name,
	const struct stat *stat, bool fresh)
{
	KR_SCOPED_LOCK(&inodes->lock);
	struct kr_view_inode *inode = find(inodes, stat->st_ino);

	if (!inode) {
		inode = add(inodes, stat);
		set_name(inode, parent, name);
		if (fresh)
			kr_space_settle(inodes->space, 0, inode->charge);
	} else if (!inode->name && inode != inodes->root) {
		set_name(inode, parent, name);
		if (!inode->busy)
			enter_idle(inodes, inode);
	}
	inode->lookups++;
	return inode;
}

struct kr_view_inode *kr_view_inode_nameless(struct kr_view_inodes *inodes, int fd, const struct stat *stat)
{
	KR_SCOPED_LOCK(&inodes->lock);
	struct kr_view_inode *inode = add(inodes, stat);

	inode->fd = fd;
	inode->lookups = 1;
	inode->removed = true;
	inodes->leaving++;
	kr_space_settle(inodes->space, 0, inode->charge);
	return inode;
}

void kr_view_inode_forget(struct kr_view_inodes *inodes, struct kr_view_inode *inode, uint64_t lookups)
{
	KR_SCOPED_LOCK(&inodes->lock);
	if (inode == inodes->root)
		return;
	assert(inode->lookups >= lookups);
	inode->lookups -= lookups;
	drop_if_unused(inodes, inode);
}

int kr_view_inode_get(struct kr_view_inodes *inodes, struct kr_view_inode *inode)
{
	KR_SCOPED_LOCK(&inodes->lock);
	int err = use(inodes, inode);

	return err < 0 ? err : inode->fd;
}

void kr_view_inode_put(struct kr_view_inodes *inodes, struct kr_view_inode *inode)
{
	KR_SCOPED_LOCK(&inodes->lock);
	unuse(inodes, inode);
}

int kr_view_inode_take(
	struct kr_view_inodes *inodes, struct kr_view_inode *parent, const char *name, struct kr_view_inode **ret_inode)
{
	int fd = openat(parent->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct kr_view_inode *inode;
	struct stat stat;

	*ret_inode = NULL;
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	if (fstat(fd, &stat) < 0) {
		int err = -errno;

		kr_close(fd);
		return err;
	}
	KR_SCOPED_LOCK(&inodes->lock);
	inode = find(inodes, stat.st_ino);
	if (!inode) {
		inode = add(inodes, &stat);
		set_name(inode, parent, name);
	}
	inode->busy++;
	leave_idle(inodes, inode);
	if (inode->fd < 0)
		inode->fd = fd;
	else
		kr_close(fd);
	*ret_inode = inode;
	return 0;
}

static bool has_name(const struct kr_view_inode *inode, const struct kr_view_inode *parent, const char *name)
{
	return inode->name && inode->parent == parent && strcmp(inode->name, name) == 0;
}

void kr_view_inode_unnamed(struct kr_view_inodes *inodes, struct kr_view_inode *inode,
	const struct kr_view_inode *parent, const char *name)
{
	struct stat stat;
	/* Of a directory some disks still count links. */
	bool last = S_ISDIR(inode->type) || (fstat(inode->fd, &stat) == 0 && stat.st_nlink == 0);

	KR_SCOPED_LOCK(&inodes->lock);
	assert(inode->busy > 0);
	if (has_name(inode, parent, name))
		drop_name(inodes, inode);
	if (last && !inode->removed) {
		inode->removed = true;
		inodes->leaving++;
	}
}

void kr_view_inode_renamed(struct kr_view_inodes *inodes, struct kr_view_inode *inode,
	const struct kr_view_inode *parent, const char *name, struct kr_view_inode *new_parent, const char *new_name)
{
	KR_SCOPED_LOCK(&inodes->lock);
	if (!has_name(inode, parent, name))
		return;
	drop_name(inodes, inode);
	set_name(inode, new_parent, new_name);
}

void kr_view_inode_linked(struct kr_view_inodes *inodes, struct kr_view_inode *inode)
{
	KR_SCOPED_LOCK(&inodes->lock);
	inodes->leaving -= inode->removed;
	inode->removed = false;
}

uint64_t kr_view_inodes_leaving(struct kr_view_inodes *inodes)
{
	KR_SCOPED_LOCK(&inodes->lock);
	return inodes->leaving;
}

uint64_t kr_view_inodes_known(struct kr_view_inodes *inodes)
{
	KR_SCOPED_LOCK(&inodes->lock);
	return inodes->table.count;
}
