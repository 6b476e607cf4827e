# Names of 255 bytes and any bytes, deep paths, directories that are gone, a directory of many entries with stable positions, big sparse files, special files.
# timeout: 240
. "$TOP/test/lib.sh"
up 2
python3 "$TOP/test/programs/names.py" "$(seen_from_here 1)" "${NAMES_ENTRIES:-20000}" "$EXPORT" || fail "names"
note "a directory that is gone, here or elsewhere, and that a program works in"
for remover in 1 2; do
	on node1 mkdir -m 750 "$(mnt 1)/gone"
	on node1 timeout -s KILL $((60 * SLOW)) python3 - "$(mnt 1)" "$WORK/gone.$remover" <<'P' &
import os, sys, time
os.chdir(sys.argv[1] + "/gone")
fd = os.open(".", os.O_RDONLY)
open(sys.argv[2] + ".in", "w").close()
while not os.path.exists(sys.argv[2]):
    time.sleep(0.05)
for there in os.fstat(fd), os.stat("."):
    assert (there.st_nlink, there.st_mode) == (0, 0o40750), there
assert os.listdir(fd) == os.listdir(".") == []
for make in (lambda: os.mkdir("x", dir_fd=fd), lambda: os.open("x", os.O_CREAT | os.O_WRONLY), lambda: os.stat("x")):
    try:
        make()
        sys.exit("a name in a directory that is gone")
    except FileNotFoundError:
        pass
os.chdir("..")
assert os.stat(fd).st_nlink == 0 and not os.path.exists("gone")
P
	worker=$!
	until_ok 60 "a program works in it" test -e "$WORK/gone.$remover.in" || fail "no program"
	on node$remover rmdir "$(mnt $remover)/gone" || fail "rmdir by node $remover"
	touch "$WORK/gone.$remover"
	wait $worker || fail "a directory that node $remover has removed"
done
note "a directory made under a name that another one has left, and that a program works in"
for mover in 1 2; do
	on node1 mkdir -p "$(mnt 1)/swap$mover/x/deep" && on node1 stat "$(mnt 1)/swap$mover/x/deep" >/dev/null || fail "mkdir"
	on node$mover sh -c "cd '$(mnt $mover)/swap$mover' && mv x y && mkdir x" || fail "mv by node $mover"
	on node1 python3 - "$(mnt 1)/swap$mover/x" <<-'P' || fail "its working directory, where node $mover has moved the other one"
		import os, sys
		os.chdir(sys.argv[1])
		for _ in range(3):
		    os.stat("../y/deep")
		    assert os.getcwd() == sys.argv[1], os.getcwd()
	P
done
finish
