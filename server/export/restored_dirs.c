#include "server/export/restored_dirs.h"

#include "common/base/util.h"

struct restored_dir {
	struct kr_table_link link;
	struct kr_fid fid;
	struct kr_time ctime;
};

static struct restored_dir *find(const struct kr_table *dirs, const struct kr_fid *fid)
{
	return KR_TABLE_FIND(
		struct restored_dir, restored, dirs, kr_fid_hash(fid), link, kr_fid_equal(&restored->fid, fid));
}

void kr_restored_dirs_fini(struct kr_table *dirs)
{
	kr_table_free_all(dirs, offsetof(struct restored_dir, link));
}

void kr_restored_dirs_note(struct kr_table *dirs, const struct kr_fid *dir, struct kr_time ctime)
{
	struct restored_dir *restored = find(dirs, dir);

	if (!restored) {
		restored = kr_xcalloc(1, sizeof(*restored));
		restored->fid = *dir;
		kr_table_insert(dirs, &restored->link, kr_fid_hash(dir));
	}
	restored->ctime = ctime;
}

const struct kr_time *kr_restored_dirs_ctime(const struct kr_table *dirs, const struct kr_fid *dir)
{
	const struct restored_dir *restored = find(dirs, dir);

	return restored ? &restored->ctime : NULL;
}
