# Ordinary programs on two nodes at once: git in two worktrees of one repository, make of halves of one program, mail with
# dot-locks, a mapped reader of a file that grows, rsync in place, holes.
# timeout: 600
. "$TOP/test/lib.sh"
for program in git make gcc rsync; do command -v $program >/dev/null || skip "no $program"; done
cluster 2
server_start
mounts_start
P=$WORK/programs M=$WORK/same # worktrees have absolute paths: the same on both nodes
mkdir -p "$P" "$M"
for i in 1 2; do on node$i mount --bind "$(mnt $i)" "$M" || fail "bind"; done
# both WHAT COMMAND...: on both nodes at once, with NODE's number.
both() {
	local what=$1 i pids=() bad=0
	shift
	for i in 1 2; do
		NODE=$i timeout $((250 * SLOW)) nsenter -t "${KEEPER[node$i]}" -n -u -m -- "$@" >"$P/said$i" 2>&1 &
		pids+=($!)
	done
	for i in 1 2; do wait "${pids[$((i - 1))]}" || bad=1; done
	[ $bad = 0 ] || fail "$what: $(tail -n 5 "$P/said1" "$P/said2")"
}

note "git"
export HOME=$P GIT_CONFIG_NOSYSTEM=1
git config --global safe.directory '*'
git config --global user.name n
git config --global user.email e@e
git config --global gc.auto 0
on node1 sh -c "git -c init.defaultBranch=main init -q '$M/repository' && cd '$M/repository' && seq 100 | split -l 1 - f && git add -A && git commit -qm all &&
	for i in 1 2; do git worktree add -q ../work\$i -b b\$i || exit 1; done" 2>"$P/said" || fail "$(cat "$P/said")"
both "commits" bash -c "cd '$M'/work\$NODE && for i in \$(seq 5); do
	echo \$NODE >new\$NODE-\$i && echo \$NODE >>faa && git add -A && git commit -qm \$i && { [ \$((i % 3)) != 0 ] || git repack -q; } || exit 1; done"
on node2 git -C "$M/repository" fsck --strict --no-progress >"$P/said" 2>&1 || fail "fsck: $(cat "$P/said")"
for i in 1 2; do
	[ "$(on node1 git -C "$M/repository" rev-list --count b$i)" = 6 ] || fail "commits of node $i"
	[ -z "$(on node$((3 - i)) git -C "$M/work$i" status --short)" ] || fail "status of the work of node $i on the other"
done

note "make"
on node2 mkdir "$M/program"
on node2 bash -c "cd '$M/program' && for i in \$(seq 10); do echo '#include \"a.h\"' >f\$i.c && echo \"int f\$i(void) { return K + \$i; }\" >>f\$i.c; done && echo '#define K 1000' >a.h &&
	{ seq -f 'int f%.0f(void);' 10; echo 'int printf(const char *, ...); int main(void) { int sum = 0;'; seq -f 'sum += f%.0f();' 10; echo 'printf(\"%d\", sum); return 0; }'; } >main.c"
cat >"$P/Makefile" <<'MAKE'
objects = main.o $(patsubst %,f%.o,1 2 3 4 5 6 7 8 9 10)
program: $(objects)
	gcc -o $@ $(objects)
half1: main.o f1.o f2.o f3.o f4.o
half2: f5.o f6.o f7.o f8.o f9.o f10.o
%.o: %.c a.h
	gcc -c -o $@ $<
MAKE
on node1 cp "$P/Makefile" "$M/program/"
both "objects" bash -c "make -s -j2 -C '$M/program' half\$NODE"
on node1 make -C "$M/program" >"$P/said" 2>&1 || fail "link: $(cat "$P/said")"
[ "$(grep -c ^gcc "$P/said")" = 1 ] || fail "what the other had made was made again: $(cat "$P/said")"
[ "$(on node2 "$M/program/program")" = 10055 ] || fail "the program"
on node2 sh -c "echo '#define K 2000' >'$M/program/a.h'"
on node1 make -s -j2 -C "$M/program" >"$P/said" 2>&1 && [ "$(on node1 "$M/program/program")" = 20055 ] || fail "after a change on the other node: $(cat "$P/said")"
on node2 make -q -C "$M/program" || fail "something to do on the other node"

note "dot-locks"
on node1 touch "$M/box"
both "mail" bash -c "exec python3 '$TOP/test/programs/dotlock.py' '$M/box' \$NODE 10"
[ "$(wc -l <"$EXPORT/box")" = 20 ] || fail "$(wc -l <"$EXPORT/box") mails"

note "a growing file, mapped"
on node1 touch "$M/growing"
both "growing" bash -c "[ \$NODE = 1 ] && what=write || what=read; exec python3 '$TOP/test/programs/growing.py' \$what '$M/growing' 60"

note "in place, and with holes"
head -c 2000000 /dev/urandom >"$P/data"
on node1 cp "$P/data" "$M/data" && on node2 cmp "$P/data" "$M/data" || fail "copy"
printf changed | dd of="$P/data" bs=1 seek=1000000 conv=notrunc status=none
on node1 rsync -I --inplace --no-whole-file "$P/data" "$M/data" && on node2 cmp "$P/data" "$M/data" || fail "rsync --inplace"
on node2 sh -c "cp --reflink=auto '$M/data' '$M/data2' && ! cp --reflink=always '$M/data' '$M/data3' 2>/dev/null" && on node1 cmp "$P/data" "$M/data2" || fail "cp --reflink"
on node1 sh -c "cd '$M' && truncate -s 20M holes && printf x | dd of=holes bs=1 seek=9000000 conv=notrunc status=none && tar -Scf holes.tar holes" || fail "tar -S"
on node2 sh -c "cd '$M' && mkdir out && tar -C out -xf holes.tar && cmp holes out/holes && [ \$(stat -c %b out/holes) -lt 1000 ] && [ \$(stat -c %s holes.tar) -lt 100000 ]" ||
	fail "a sparse archive: $(stat -c '%n %s %b' "$EXPORT/holes" "$EXPORT/holes.tar" "$EXPORT/out/holes")"
for i in 1 2; do on node$i umount "$M" || fail "unbind"; done
finish
