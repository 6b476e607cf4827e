/* The inodes of a view and their descriptors, on a directory of the disk. */
#include "fuse/view/inodes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <fcntl.h>
#include <unistd.h>
#include <cmocka.h>

#include "fuse/view/tree.h"

enum { ROOT = 1, FEW = 2 };

struct fixture {
	char path[64];
	int fd;
	struct kr_space space;
	struct kr_view_inodes *inodes;
	struct kr_view_inode *root;
};

static int set_up(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));

	snprintf(fixture->path, sizeof(fixture->path), "/tmp/kairan-test-inodes.XXXXXX");
	assert_non_null(mkdtemp(fixture->path));
	fixture->fd = open(fixture->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	fixture->space = (struct kr_space){.limit = 1 << 30, .inodes = 1};
	fixture->inodes = kr_view_inodes_new(dup(fixture->fd), &fixture->space, FEW);
	fixture->root = kr_view_inode(fixture->inodes, ROOT);
	*state = fixture;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *fixture = *state;

	kr_view_inodes_free(fixture->inodes);
	close(fixture->fd);
	kr_tree_remove(AT_FDCWD, fixture->path);
	free(fixture);
	return 0;
}

static struct kr_view_inode *found(struct fixture *fixture, struct kr_view_inode *parent, const char *name, bool fresh)
{
	struct kr_view_inode *inode;
	struct stat stat;

	assert_true(kr_view_inode_get(fixture->inodes, parent) >= 0);
	assert_int_equal(fstatat(parent->fd, name, &stat, AT_SYMLINK_NOFOLLOW), 0);
	inode = kr_view_inode_found(fixture->inodes, parent, name, &stat, fresh);
	kr_view_inode_put(fixture->inodes, parent);
	return inode;
}

static struct kr_view_inode *make(struct fixture *fixture, struct kr_view_inode *parent, const char *name, mode_t mode)
{
	int fd = kr_view_inode_get(fixture->inodes, parent);

	assert_true(fd >= 0 && kr_space_add_inode(&fixture->space));
	assert_int_equal(S_ISDIR(mode) ? mkdirat(fd, name, 0755) : mknodat(fd, name, mode | 0644, 0), 0);
	kr_view_inode_put(fixture->inodes, parent);
	return found(fixture, parent, name, true);
}

/* Whether the inode's descriptor is that of its file. */
static void assert_is_itself(struct fixture *fixture, struct kr_view_inode *inode)
{
	int fd = kr_view_inode_get(fixture->inodes, inode);
	struct stat stat;

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &stat), 0);
	assert_int_equal(stat.st_ino, inode->number);
	kr_view_inode_put(fixture->inodes, inode);
}

static void remove_name(struct fixture *fixture, struct kr_view_inode *parent, const char *name, int flags)
{
	struct kr_view_inode *inode;
	int fd = kr_view_inode_get(fixture->inodes, parent);

	assert_int_equal(kr_view_inode_take(fixture->inodes, parent, name, &inode), 0);
	assert_int_equal(unlinkat(fd, name, flags), 0);
	kr_view_inode_unnamed(fixture->inodes, inode, parent, name);
	kr_view_inode_put(fixture->inodes, inode);
	kr_view_inode_put(fixture->inodes, parent);
}

static void descriptors_are_few_and_come_back(void **state)
{
	struct fixture *fixture = *state;
	struct kr_view_inode *inodes[20];
	int open = 0;
	char name[16];

	for (int i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "d%d", i);
		inodes[i] = make(fixture, i % 3 ? inodes[i - 1] : fixture->root, name, S_IFDIR);
	}
	for (int round = 0; round < 2; round++)
		for (int i = 0; i < 20; i++)
			assert_is_itself(fixture, inodes[(i * 7) % 20]);
	for (int i = 0; i < 20; i++)
		open += inodes[i]->fd >= 0;
	assert_true(open <= FEW);
	for (int i = 0; i < 20; i++) /* directories before what they hold */
		kr_view_inode_forget(fixture->inodes, inodes[i], 1);
	assert_int_equal(kr_view_inodes_known(fixture->inodes), 1);
}

static void a_removed_file_stays_itself_until_it_is_forgotten(void **state)
{
	struct fixture *fixture = *state;
	struct kr_view_inode *inode = make(fixture, fixture->root, "a", S_IFREG), *other;

	remove_name(fixture, fixture->root, "a", 0);
	other = make(fixture, fixture->root, "a", S_IFREG);
	assert_ptr_not_equal(inode, other);
	assert_int_not_equal(inode->number, other->number);
	assert_is_itself(fixture, inode);
	assert_int_equal(kr_view_inodes_leaving(fixture->inodes), 1);
	assert_int_equal(fixture->space.inodes, 3);
	kr_view_inode_forget(fixture->inodes, inode, 1);
	assert_int_equal(kr_view_inodes_leaving(fixture->inodes), 0);
	assert_int_equal(fixture->space.inodes, 2);
}

static void a_file_goes_on_under_its_other_name(void **state)
{
	struct fixture *fixture = *state;
	struct kr_view_inode *inode = make(fixture, fixture->root, "a", S_IFREG);

	assert_int_equal(linkat(fixture->fd, "a", fixture->fd, "b", 0), 0);
	remove_name(fixture, fixture->root, "a", 0);
	assert_int_equal(kr_view_inodes_leaving(fixture->inodes), 0);
	assert_is_itself(fixture, inode);
	assert_ptr_equal(found(fixture, fixture->root, "b", false), inode);
	assert_string_equal(inode->name, "b");
	kr_view_inode_forget(fixture->inodes, inode, 2);
	assert_int_equal(fixture->space.inodes, 2);
}

static void what_is_moved_is_found_where_it_is(void **state)
{
	struct fixture *fixture = *state;
	struct kr_view_inode *from = make(fixture, fixture->root, "from", S_IFDIR);
	struct kr_view_inode *to = make(fixture, fixture->root, "to", S_IFDIR);
	struct kr_view_inode *moved = make(fixture, from, "moved", S_IFDIR),
			     *inside = make(fixture, moved, "x", S_IFREG);
	struct kr_view_inode *taken;

	assert_true(kr_view_inode_get(fixture->inodes, from) >= 0 && kr_view_inode_get(fixture->inodes, to) >= 0);
	assert_int_equal(kr_view_inode_take(fixture->inodes, from, "moved", &taken), 0);
	assert_ptr_equal(taken, moved);
	assert_int_equal(renameat(from->fd, "moved", to->fd, "here"), 0);
	kr_view_inode_renamed(fixture->inodes, moved, from, "moved", to, "here");
	kr_view_inode_put(fixture->inodes, taken);
	kr_view_inode_put(fixture->inodes, from);
	kr_view_inode_put(fixture->inodes, to);
	remove_name(fixture, fixture->root, "from", AT_REMOVEDIR);
	kr_view_inode_forget(fixture->inodes, from, 1);
	for (int i = 0; i < 3; i++) { /* others take their descriptors away */
		assert_is_itself(fixture, to);
		assert_is_itself(fixture, make(fixture, fixture->root, (const char *[]){"p", "q", "r"}[i], S_IFREG));
		assert_is_itself(fixture, inside);
		assert_is_itself(fixture, moved);
	}
}

static void a_tree_is_removed_at_any_depth(void **state)
{
	struct fixture *fixture = *state;
	int at = openat(fixture->fd, ".", O_RDONLY | O_DIRECTORY), next;

	for (int depth = 0; depth < 3000; depth++) {
		assert_int_equal(mkdirat(at, "d", 0700), 0);
		assert_int_equal(symlinkat("/", at, "link"), 0);
		next = openat(at, "d", O_RDONLY | O_DIRECTORY);
		close(at);
		at = next;
	}
	close(at);
	assert_int_equal(kr_tree_remove(fixture->fd, "d"), 0);
	assert_int_equal(faccessat(fixture->fd, "d", F_OK, AT_SYMLINK_NOFOLLOW), -1);
	assert_int_equal(kr_tree_remove(fixture->fd, "d"), 0);
	assert_int_equal(access("/etc", F_OK), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(descriptors_are_few_and_come_back, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_removed_file_stays_itself_until_it_is_forgotten, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_file_goes_on_under_its_other_name, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_is_moved_is_found_where_it_is, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_tree_is_removed_at_any_depth, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
