# Ordinary tools on a mount: cp -a, tar, rsync, git clone, make; the server's plain files are what counts.
# tags: sanitizer
# timeout: 240
. "$TOP/test/lib.sh"
up 2
M=$(mnt 1) M2=$(seen_from_here 2)
mkdir "$WORK/source" && (cd "$TOP" && tar cf - common ring README.md 2>/dev/null) | tar xf - -C "$WORK/source"
ln -s common/base/fail.h "$WORK/source/link"
ln "$WORK/source/common/base/fail.h" "$WORK/source/hard"
touch -d '2001-02-03 04:05:06.789012345' "$WORK/source/common/base/fail.h"
chmod 600 "$WORK/source/common/base/log.h"
times() { (cd "$1" && find . -type f -printf '%p %m %T@ %s %n\n' | sort); }

note "cp -a"
on node1 cp -a "$WORK/source" "$M/cp" || fail "cp -a"
same_tree "$WORK/source" "$EXPORT/cp"
same_tree "$WORK/source" "$M2/cp"
[ "$(times "$WORK/source")" = "$(times "$EXPORT/cp")" ] || fail "cp -a: modes or times: $(diff <(times "$WORK/source") <(times "$EXPORT/cp"))"
note "tar"
tar --format=posix -cf "$WORK/source.tar" -C "$WORK" source
on node1 tar xpf "$WORK/source.tar" -C "$M" || fail "tar x"
[ "$(times "$WORK/source")" = "$(times "$EXPORT/source")" ] || fail "tar: modes or times"
on node2 tar --format=posix -cf "$WORK/back.tar" -C "$(mnt 2)" source || fail "tar c"
mkdir "$WORK/back" && tar xf "$WORK/back.tar" -C "$WORK/back" && same_tree "$WORK/source" "$WORK/back/source"
note "rsync"
on node1 rsync -aH "$WORK/source/" "$M/rsync/" || fail "rsync"
[ "$(times "$WORK/source")" = "$(times "$EXPORT/rsync")" ] || fail "rsync: modes or times"
[ -z "$(on node2 rsync -aHin "$WORK/source/" "$(mnt 2)/rsync/")" ] || fail "rsync sees differences on the other node"
note "git"
git init -q "$WORK/repository"
cp "$TOP"/common/base/*.h "$WORK/repository"
git -C "$WORK/repository" add . && git -C "$WORK/repository" -c user.name=t -c user.email=t@localhost commit -qm one
on node1 git clone -q "$WORK/repository" "$M/clone" || fail "git clone"
on node1 sh -c "cd $M/clone && echo more >>fail.h && git -c user.name=t -c user.email=t@localhost commit -qam two && git status --short && git fsck --strict" >"$WORK/git" 2>&1 || fail "git commit: $(cat "$WORK/git")"
[ "$(git -C "$EXPORT/clone" -c safe.directory='*' log --format=%s | tr '\n' ' ')" = "two one " ] || fail "git log on the server"
note "make"
mkdir "$EXPORT/make"
cat >"$EXPORT/make/a.c" <<X
int main(void) { return 0; }
X
printf 'a: a.c\n\tcc -o a a.c\n' >"$EXPORT/make/Makefile"
on node1 make -C "$M/make" >/dev/null || fail "make"
on node2 "$(mnt 2)/make/a" || fail "the program does not run on the other node"
on node2 make -q -C "$(mnt 2)/make" || fail "make would build again"
on node2 touch "$(mnt 2)/make/a.c"
! on node1 make -q -C "$M/make" || fail "make does not see the newer source"
finish
