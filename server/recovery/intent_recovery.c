/* See intent_recovery.h. */
#include "server/recovery/intent_recovery.h"

#include <errno.h>
#include <sys/stat.h>

#include "common/base/log.h"
#include "common/base/table.h"
#include "server/base/fid.h"

struct settling {
	struct kr_export *export;
	bool by_handle;
	unsigned made, not_made, unknown;
};

/* One of a file to another name of itself changes nothing, so it may be made once more. */
static enum kr_executed_phase judge_rename(const struct kr_intent_change *change,
	const struct kr_intent_recovery_name *name, const struct kr_intent_recovery_name *new_name, uint64_t *ret_value)
{
	if (change->before == change->other || (!name->err && name->file == change->before))
		return KR_EXECUTED_BEGUN;
	if (new_name->err || new_name->file != change->before)
		return KR_EXECUTED_INTENT;
	if (!name->file && (!name->err || name->gone)) /* else they were exchanged, or it is not known */
		*ret_value = kr_intent_value(KR_INTENT_RENAME, change->parent, change->name);
	return KR_EXECUTED_DONE;
}

/* A directory that is gone was empty. */
static enum kr_executed_phase judge_removal(
	const struct kr_intent_change *change, const struct kr_intent_recovery_name *name, uint64_t *ret_value)
{
	if (name->err && !name->gone)
		return KR_EXECUTED_INTENT;
	if (!name->gone && name->file == change->before)
		return KR_EXECUTED_BEGUN;
	*ret_value = kr_intent_value(KR_INTENT_REMOVE, change->parent, change->name);
	return KR_EXECUTED_DONE;
}

enum kr_executed_phase kr_intent_recovery_judge(const struct kr_intent_change *change,
	const struct kr_intent_recovery_name *name, const struct kr_intent_recovery_name *new_name, uint64_t *ret_value)
{
	*ret_value = 0;
	if (change->kind == KR_INTENT_RENAME)
		return judge_rename(change, name, new_name, ret_value);
	if (change->kind == KR_INTENT_REMOVE)
		return judge_removal(change, name, ret_value);
	if (name->err)
		return KR_EXECUTED_INTENT;
	switch (change->kind) {
	case KR_INTENT_MAKE:
		if (!name->file || name->type != change->type)
			return KR_EXECUTED_BEGUN;
		*ret_value = name->file;
		return KR_EXECUTED_DONE;
	case KR_INTENT_LINK:
		if (name->file != change->other)
			return KR_EXECUTED_BEGUN;
		*ret_value = kr_intent_value(KR_INTENT_LINK, change->parent, change->name);
		return KR_EXECUTED_DONE;
	default:
		return KR_EXECUTED_INTENT;
	}
}

/* The handle has opened it before, and the export is the one that it was (state_open.c). */
static bool is_gone(struct kr_export *export, const struct kr_fid *dir, int err)
{
	return err == -ESTALE && dir->bytes[0] == KR_FID_HANDLE && kr_export_tick(export) == 0;
}

static struct kr_intent_recovery_name look(struct kr_export *export, const struct kr_fid *parent, const char *name)
{
	struct kr_attr attr;
	struct kr_fid fid;
	int err = kr_export_lookup(export, NULL, parent, name, &fid, &attr);

	if (err)
		return (struct kr_intent_recovery_name){
			.err = err == -ENOENT ? 0 : err, .gone = is_gone(export, parent, err)};
	return (struct kr_intent_recovery_name){.file = kr_fid_hash(&fid), .type = attr.mode & S_IFMT};
}

static enum kr_executed_phase judge(void *context, const struct kr_intent_change *change, uint64_t *ret_value)
{
	struct settling *settling = context;
	struct kr_intent_recovery_name name, new_name = {0};
	enum kr_executed_phase verdict = KR_EXECUTED_INTENT;

	if (settling->by_handle) {
		name = look(settling->export, change->parent, change->name);
		if (change->kind == KR_INTENT_RENAME)
			new_name = look(settling->export, change->new_parent, change->new_name);
		verdict = kr_intent_recovery_judge(change, &name, &new_name, ret_value);
	}
	settling->made += verdict == KR_EXECUTED_DONE;
	settling->not_made += verdict == KR_EXECUTED_BEGUN;
	settling->unknown += verdict == KR_EXECUTED_INTENT;
	return verdict;
}

void kr_intent_recovery(struct kr_executed *executed, struct kr_export *export)
{
	struct settling settling = {.export = export};
	struct kr_export_info info;

	kr_export_info(export, &info);
	settling.by_handle = info.by_handle;
	kr_executed_settle(executed, judge, &settling);
	if (settling.made || settling.not_made || settling.unknown)
		kr_log_info("names were being changed when kairand ended: %u changes have been made, %u have not, "
			    "of %u nobody can tell",
			settling.made, settling.not_made, settling.unknown);
}
