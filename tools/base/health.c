/* See health.h. */
#include "tools/base/health.h"

#include <string.h>

static const json_t *in(const json_t *object, const char *section, const char *name)
{
	return json_object_get(json_object_get(object, section), name);
}

static bool any(const json_t *object, const char *section, const char *name)
{
	return json_integer_value(in(object, section, name)) > 0;
}

static bool mount_is_healthy(const json_t *status)
{
	const char *error = json_string_value(in(status, "journal", "error"));
	const json_t *file;
	size_t i;

	if (json_object_get(status, "view")) /* it has no server, and nothing to bring there */
		return true;
	json_array_foreach(json_object_get(status, "files"), i, file)
	{
		if (json_is_true(json_object_get(file, "late")))
			return false;
	}
	return json_is_true(in(status, "server", "connected")) && !json_is_true(in(status, "server", "fenced")) &&
		!any(status, "backlog", "refused_bytes") && !any(status, "backlog", "orphaned_bytes") &&
		!json_array_size(json_object_get(status, "damage")) && !(error && *error) &&
		!any(status, "journal", "slow_ms") && !any(status, "journal", "set_aside");
}

static bool server_is_healthy(const json_t *status)
{
	const json_t *node;
	size_t i;

	json_array_foreach(json_object_get(status, "nodes"), i, node)
	{
		if (!json_is_true(json_object_get(node, "connected")) ||
			json_integer_value(json_object_get(node, "refused_bytes")) > 0)
			return false;
	}
	return json_is_true(in(status, "export", "present")) && !json_is_true(json_object_get(status, "grace")) &&
		!any(status, "parked", "count");
}

bool kr_status_is_healthy(const json_t *status)
{
	const char *kind = json_string_value(json_object_get(status, "kind"));

	return kind && strcmp(kind, "server") == 0 ? server_is_healthy(status) : mount_is_healthy(status);
}
