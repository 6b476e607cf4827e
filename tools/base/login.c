/* See login.h. */
#include "tools/base/login.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/auth/munge.h"
#include "common/base/fail.h"
#include "common/base/util.h"
#include "common/config/options.h"
#include "tools/base/client.h"

int kr_tool_proof_take(struct kr_tool_proof *proof, int option, const char *usage)
{
	uint64_t number;

	if (option == 'k') {
		proof->key = optarg;
	} else if (option == 'm') {
		proof->munge = true;
	} else if (option == 's') {
		proof->munge_socket = optarg;
	} else if (option == 'u') {
		if (!kr_parse_number(optarg, 0, UINT32_MAX - 1, &number)) {
			fprintf(stderr, "kairan: --munge-uid wants a number, not '%s'\n", optarg);
			return KR_EXIT_USAGE;
		}
		proof->munge_uid = (uint32_t)number;
	} else {
		return kr_tool_usage(usage, option == 'h');
	}
	return -1;
}

int kr_tool_proof_end(const struct kr_tool_proof *proof, int count, const char *usage)
{
	if (count <= 1 && !(proof->key && proof->munge))
		return -1;
	fprintf(stderr, "kairan: %s\n",
		count > 1 ? "too many arguments" : "--key and --munge are two ways to the same: choose one");
	return kr_tool_usage(usage, false);
}

/* The proof of this machine's mounts, if there is one.  kr_options_read_file knows the daemons' options only, and an
 * error in others is not this command's to tell. */
static void take_mounts_proof(struct kr_tool_login *login)
{
	json_t *root = json_load_file(KR_OPTIONS_FILE, 0, NULL);
	const json_t *uid;

	login->options = json_incref(json_object_get(root, "mount"));
	json_decref(root);
	uid = json_object_get(login->options, "munge_uid");
	login->proof.key = json_string_value(json_object_get(login->options, "key"));
	login->proof.munge = json_is_true(json_object_get(login->options, "munge"));
	login->proof.munge_socket = json_string_value(json_object_get(login->options, "munge_socket"));
	if (json_is_integer(uid) && json_integer_value(uid) > 0 && json_integer_value(uid) < UINT32_MAX)
		login->proof.munge_uid = (uint32_t)json_integer_value(uid);
}

int kr_tool_login_init(struct kr_tool_login *login, const struct kr_tool_proof *proof)
{
	bool given = proof->key || proof->munge;
	int err;

	*login = (struct kr_tool_login){.proof = *proof};
	if (!given)
		take_mounts_proof(login);
	if (login->proof.munge && !kr_munge_is_built())
		return kr_fail(-EOPNOTSUPP, "this program is built without MUNGE");
	login->handshake.munge = login->proof.munge;
	login->handshake.munge_socket = login->proof.munge_socket;
	login->handshake.munge_uid = login->proof.munge_uid;
	err = login->proof.key ? kr_key_load(login->proof.key, &login->handshake.key) : 0;
	return err == -EACCES && !given ? 0 : err;
}

void kr_tool_login_fini(struct kr_tool_login *login)
{
	kr_conn_login_fini(&login->handshake);
	json_decref(login->options);
}
