# What a mount answers to the rarer calls, and what another node sees then: the same as a local disk.
. "$TOP/test/lib.sh"
up 2
mkdir "$WORK/local" "$WORK/local2" "$EXPORT/one" "$EXPORT/two"
# Not alike: temporary files without a name (libfuse 3.14 has none), attributes that need CAP_SYS_ADMIN at the server.
different='^trusted|^O_TMPFILE|^linked|^read: b.temporary|^O_EXCL cannot|^ended by Operation not supported'
survey() { timeout -s KILL $((100 * SLOW)) python3 "$TOP/test/programs/survey.py" "$@" 2>&1 | grep -vE "$different"; }
compare() { diff "$WORK/expected" "$WORK/got" >"$WORK/diff" || fail "$1: a local disk (<) and the mount (>): $(head -20 "$WORK/diff")"; }
survey "$WORK/local" >"$WORK/expected"
[ "$(wc -l <"$WORK/expected")" -gt 150 ] && ! grep -q Traceback "$WORK/expected" || fail "the survey: $(tail -5 "$WORK/expected")"
on node1 bash -c "$(declare -f survey); SLOW=$SLOW TOP='$TOP' different='$different'; survey '$(mnt 1)/one'" >"$WORK/got"
compare "one mount"
# Those that do not change the user, who cannot go the way that leads into another node from here.
sections="tmpfile holes copies renames links times limits opens"
# shellcheck disable=SC2086
survey "$WORK/local2" "$WORK/local2" $sections >"$WORK/expected"
# shellcheck disable=SC2086
survey "$(seen_from_here 1)/two" "$(seen_from_here 2)/two" $sections >"$WORK/got"
compare "two mounts"

# What root may set on a local disk, and the server may not: as where there is nothing of the kind.
on node1 python3 - "$(mnt 1)/attributes" <<'P' || fail "attributes that need CAP_SYS_ADMIN at the server"
import errno, os, sys
open(sys.argv[1], "w").close()
def error(call, *arguments):
    try:
        call(sys.argv[1], *arguments)
    except OSError as met:
        return errno.errorcode[met.errno]
def as_user(call, *arguments):
    os.seteuid(1234)
    met = error(call, *arguments)
    os.seteuid(0)
    return met
for name in "trusted.a", "security.a":
    met = as_user(os.setxattr, name, b"1"), error(os.setxattr, name, b"1"), error(os.removexattr, name)
    # With the BPF security module Linux before 6.10 lets root's daemons set security attributes without CAP_SYS_ADMIN.
    assert met in [("EPERM", "ENOTSUP", "ENOTSUP"), ("EPERM", None, None)][: 2 if name == "security.a" else 1], (name, met)
P
finish
