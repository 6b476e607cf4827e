"""POSIX ACLs on a mount, as root: who is let in, and what other nodes' changes do to that.

    acls.py answers DIRECTORY                   prints what callers may do with files and directories of many ACLs
    acls.py changes ROUNDS SEED CHANGED SEEN    CHANGED and SEEN are one directory, on two mounts: after each change on
                                                the first, the second shows that ACL, and lets in whom it lets in
"""
import errno
import os
import random
import struct
import sys

OWNER, GROUP = 2001, 3001
CALLERS = {'owner': (OWNER, 4001, []), 'named': (2002, 4002, []), 'member': (2003, GROUP, []),
           'in a named group': (2004, 4004, [3002]), 'other': (2005, 4005, []), 'root': (0, 0, [])}
ACCESS, DEFAULT = 'system.posix_acl_access', 'system.posix_acl_default'
USER_OBJ, USER, GROUP_OBJ, GROUP_TAG, MASK, OTHER = 1, 2, 4, 8, 0x10, 0x20


def acl(owner, named, group, named_group, mask, other, uid=2002, gid=3002):
    entries = [(USER_OBJ, owner, -1), (USER, named, uid), (GROUP_OBJ, group, -1), (GROUP_TAG, named_group, gid),
               (MASK, mask, -1), (OTHER, other, -1)]
    return struct.pack('<I', 2) + b''.join(struct.pack('<HHI', tag, bits, who & 0xffffffff)
                                           for tag, bits, who in entries)


def result_of(caller, call):
    """The errno of CALL by a child that has become CALLER; 0."""
    uid, gid, groups = caller
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups(groups)
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
            call()
        except OSError as error:
            os._exit(error.errno)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def opened(path, flags):
    os.close(os.open(path, flags, 0o666))


OPERATIONS = {'read': lambda file, directory: opened(file, os.O_RDONLY),
              'write': lambda file, directory: opened(file, os.O_WRONLY),
              'list': lambda file, directory: os.listdir(directory),
              'find': lambda file, directory: os.stat(directory + '/inner'),
              'create': lambda file, directory: opened(directory + '/new', os.O_CREAT | os.O_EXCL | os.O_WRONLY),
              'set an acl': lambda file, directory: os.setxattr(file, ACCESS, acl(6, 4, 0, 0, 4, 0))}


def answers(top):
    os.mkdir(top + '/acls')
    os.chmod(top + '/acls', 0o755)
    rng = random.Random(1)
    for number in range(14):
        bits = [rng.randrange(8) for _ in range(6)]
        file, directory = f'{top}/acls/file{number}', f'{top}/acls/directory{number}'
        opened(file, os.O_CREAT | os.O_WRONLY)
        os.mkdir(directory)
        opened(directory + '/inner', os.O_CREAT | os.O_WRONLY)
        for path in (file, directory):
            os.chown(path, OWNER, GROUP)
            os.setxattr(path, ACCESS, acl(*bits))
        if number % 4 == 0:
            os.setxattr(directory, DEFAULT, acl(7, *bits[1:]))
        for name, operation in OPERATIONS.items():
            for caller, who in CALLERS.items():
                result = result_of(who, lambda: operation(file, directory))
                text = errno.errorcode.get(result, result) if result else 'done'
                if os.path.exists(directory + '/new'):
                    made = os.stat(directory + '/new')
                    text += f', mode {made.st_mode:o}, acl {of(directory + "/new").hex()}'
                    os.unlink(directory + '/new')
                if name == 'set an acl' and not result:
                    os.setxattr(file, ACCESS, acl(*bits))
                print(number, caller, name, text)


def of(path):
    try:
        return os.getxattr(path, ACCESS)
    except OSError as error:
        if error.errno != errno.ENODATA:
            raise
        return b''


def changes(rounds, seed, changed, seen):
    rng = random.Random(seed)
    there, held = os.open(seen, os.O_PATH), {}  # the path to it may be root's alone
    for top in ('file', 'directory'):
        path = f'{changed}/{top}'
        if top == 'file':
            opened(path, os.O_CREAT | os.O_WRONLY)
        else:
            os.mkdir(path)
            opened(path + '/inner', os.O_CREAT | os.O_WRONLY)
            os.chmod(path + '/inner', 0o666)
        held[top] = os.open(f'{seen}/{top}', os.O_RDONLY)  # asked by it the kernel looks up no name, and keeps its ACL
    for number in range(int(rounds)):
        named, mask = rng.choice((0, 1, 4, 5, 7)), rng.choice((0, 5, 7))
        value = acl(7, named, 0, 0, mask, 0)
        top = rng.choice(('file', 'directory'))
        if rng.random() < 0.2:
            os.chmod(f'{changed}/{top}', 0o700)  # the mask
            value, mask = of(f'{changed}/{top}'), 0
            if value:
                named = struct.unpack_from('<HHI', value, 12)[1]
        else:
            os.setxattr(f'{changed}/{top}', ACCESS, value)
        if rng.random() < 0.5:
            found = of(rng.choice((f'{seen}/{top}', held[top])))
            assert found == value, (seed, number, top, 'the ACL', found.hex(), value.hex())
        needed = 4 if top == 'file' else 1
        call = {'file': lambda: os.close(os.open('file', os.O_RDONLY, dir_fd=there)),
                'directory': rng.choice((lambda: os.stat('directory/inner', dir_fd=there),
                                         lambda: os.stat('inner', dir_fd=held['directory'])))}[top]
        allowed = bool(value) and named & mask & needed
        result = result_of(CALLERS['named'], call)
        assert result == (0 if allowed else errno.EACCES), (seed, number, top, named, mask, result)
        assert result_of(CALLERS['other'], call) == errno.EACCES, (seed, number, top, 'another user')


{'answers': answers, 'changes': changes}[sys.argv[1]](*sys.argv[2:])
