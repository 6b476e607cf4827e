"""Tries operations as several users on files and directories of many modes, below a directory, as root; prints each answer.

    permissions.py DIRECTORY [N]        N: only every Nth mode

One line per try: who, what, on what; then the name of the errno and what has become of the file.  Two directories on
filesystems that decide alike get the same lines.  Each try
starts from the same state: what failed has changed nothing.
"""
import ctypes
import errno
import os
import stat
import sys

OWNER, GROUP = 2001, 3001
CALLERS = {'owner': (OWNER, 4001, []), 'member': (2002, 4002, [3999, GROUP]), 'group': (2003, GROUP, []),
           'other': (2004, 4004, [3999]), 'root': (0, 0, [])}
libc = ctypes.CDLL(None, use_errno=True)


def opened(path, flags):
    os.close(os.open(path, flags))


def written(path, flags):
    fd = os.open(path, flags)
    try:
        os.write(fd, b'more')
        os.ftruncate(fd, 3)
    finally:
        os.close(fd)


def set_acl(path):
    # user::rw-, user:2004:r--, group::---, mask::r--, other::---
    entries = [(1, 6, -1), (2, 4, 2004), (4, 0, -1), (0x10, 4, -1), (0x20, 0, -1)]
    value = b'\x02\0\0\0' + b''.join(t.to_bytes(2, 'little') + p.to_bytes(2, 'little') + (i & 0xffffffff).to_bytes(4, 'little')
                                     for t, p, i in entries)
    os.setxattr(path, 'system.posix_acl_access', value)


def moved(path):
    os.rename(path, path + '.moved')
    os.rename(path + '.moved', path)


def replaced(path):
    with_fd = os.open(path + '.new', os.O_CREAT | os.O_WRONLY, 0o644)
    os.close(with_fd)
    os.rename(path + '.new', path)


FILE = {
    'stat': os.stat,
    'read': lambda p: opened(p, os.O_RDONLY),
    'write': lambda p: written(p, os.O_WRONLY),
    'append': lambda p: opened(p, os.O_WRONLY | os.O_APPEND),
    'both': lambda p: opened(p, os.O_RDWR),
    'read and truncate': lambda p: opened(p, os.O_RDONLY | os.O_TRUNC),
    'create and read': lambda p: opened(p, os.O_RDONLY | os.O_CREAT),
    'create and truncate': lambda p: opened(p, os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
    'create anew': lambda p: opened(p, os.O_WRONLY | os.O_CREAT | os.O_EXCL),
    'truncate': lambda p: os.truncate(p, 1),
    'chmod': lambda p: os.chmod(p, 0o2751),
    'chmod 6777': lambda p: os.chmod(p, 0o6777),
    'chown': lambda p: os.chown(p, 2004, -1),
    'chgrp': lambda p: os.chown(p, -1, 4001),
    'chgrp to the group': lambda p: os.chown(p, -1, GROUP),
    'utime now': lambda p: os.utime(p),
    'utime': lambda p: os.utime(p, (1, 1)),
    'access r': lambda p: access(p, os.R_OK), 'access w': lambda p: access(p, os.W_OK), 'access x': lambda p: access(p, os.X_OK),
    'getxattr': lambda p: os.getxattr(p, 'user.a'),
    'setxattr': lambda p: os.setxattr(p, 'user.a', b'c'),
    'removexattr': lambda p: os.removexattr(p, 'user.a'),
    'set acl': set_acl,
    'execute': lambda p: execute(p),
}
DIRECTORY = {
    'list': os.listdir,
    'look up': lambda p: os.stat(p + '/file'),
    'look up nothing': lambda p: os.stat(p + '/nothing'),
    'create': lambda p: opened(p + '/new', os.O_CREAT | os.O_WRONLY),
    'mkdir': lambda p: os.mkdir(p + '/new'),
    'symlink': lambda p: os.symlink('x', p + '/new'),
    'mkfifo': lambda p: os.mkfifo(p + '/new'),
    'link': lambda p: os.link(p + '/file', p + '/new'),
    'unlink': lambda p: os.unlink(p + '/file'),
    'unlink open': lambda p: os.unlink(p + '/file'),
    'unlink nothing': lambda p: os.unlink(p + '/nothing'),
    'rmdir': lambda p: os.rmdir(p + '/sub'),
    'rename': lambda p: moved(p + '/file'),
    'rename over': lambda p: replaced(p + '/file'),
    'rename away': lambda p: os.rename(p + '/file', os.path.dirname(p) + '/aside/file'),
    'rename a directory away': lambda p: os.rename(p + '/sub', os.path.dirname(p) + '/aside/sub'),
    'utime now': lambda p: os.utime(p), 'chmod': lambda p: os.chmod(p, 0o2770),
}


# These change nothing, also where they are allowed.
READING = {'stat', 'read', 'append', 'both', 'create and read', 'access r', 'access w', 'access x', 'getxattr', 'execute', 'list',
           'look up', 'look up nothing'}


def access(path, mask):
    if not os.access(path, mask, effective_ids=True):
        raise OSError(errno.EACCES, 'access')


def execute(path):
    if libc.execve(path.encode(), (ctypes.c_char_p * 1)(), (ctypes.c_char_p * 1)()) < 0:
        raise OSError(ctypes.get_errno(), 'execve')


def remove(path):
    for base, directories, files in os.walk(path, topdown=False):
        for name in files:
            os.unlink(os.path.join(base, name))
        for name in directories:
            full = os.path.join(base, name)
            os.unlink(full) if os.path.islink(full) else os.rmdir(full)


def make(root, mode, directory, owner=OWNER):
    remove(root)
    path = root + '/it'
    os.mkdir(root + '/aside')
    os.chmod(root + '/aside', 0o777)
    if directory:
        os.mkdir(path)
        os.mkdir(path + '/sub')
        files = [path + '/file', path + '/sub']
        opened(path + '/file', os.O_CREAT | os.O_WRONLY)
    else:
        files = []
        with open(path, 'wb') as file:
            file.write(b'12345678')
    for name in files:
        os.chown(name, 2002, 4002)
        os.chmod(name, 0o666 if name.endswith('file') else 0o777)
    if not directory:
        os.setxattr(path, 'user.a', b'b')
    os.chown(path, owner, GROUP)
    os.chmod(path, mode)
    return path


def become(uid, gid, groups):
    """With root as the saved user, so that the process can come back: its rights are those of UID, GID and GROUPS."""
    os.setresuid(-1, 0, -1)
    os.setgroups(groups)
    os.setresgid(gid, gid, 0)
    os.setresuid(uid, uid, 0)


def attempt(path, operation, caller):
    """The errno that CALLER gets."""
    if operation is FILE['execute']:
        return attempt_in_child(path, operation, caller)
    become(*CALLERS[caller])
    os.umask(0o022)
    try:
        operation(path)
        return 0
    except OSError as error:
        return error.errno
    finally:
        os.umask(0)
        become(*CALLERS['root'])


def attempt_in_child(path, operation, caller):
    """For what does not come back."""
    pid = os.fork()
    if pid == 0:
        try:
            become(*CALLERS[caller])
            operation(path)
        except OSError as error:
            os._exit(error.errno)
        finally:
            os._exit(255)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def state(path):
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return 'gone'
    text = f'{found.st_mode:o} {found.st_uid}:{found.st_gid}'
    if stat.S_ISREG(found.st_mode):
        text += f' {found.st_size}'
    for name in sorted(os.listdir(path)) if stat.S_ISDIR(found.st_mode) else []:
        inner = os.lstat(path + '/' + name)
        text += f' {name}={inner.st_mode:o},{inner.st_uid}:{inner.st_gid}'
    return text


def main(root, every=1):
    os.umask(0)
    root += '/permissions'
    os.mkdir(root)
    os.chmod(root, 0o777)
    for directory, modes, operations in (
            (False, (0o644, 0o600, 0o060, 0o006, 0o000, 0o444, 0o070, 0o711, 0o6775, 0o2664), FILE),
            (True, (0o755, 0o700, 0o070, 0o007, 0o775, 0o1777, 0o777, 0o2777, 0o711, 0o733, 0o744, 0o000), DIRECTORY)):
        for mode in modes[::every]:
            path = None
            for name, operation in operations.items():
                for caller in CALLERS:
                    path = path or make(root, mode, directory)
                    keep = os.open(path + '/file', os.O_RDONLY) if name in ('unlink open', 'rename over') else -1
                    result = attempt(path, operation, caller)
                    if keep >= 0:
                        os.close(keep)
                    answer = errno.errorcode.get(result, str(result))
                    print(f'{"directory" if directory else "file"} {mode:o} {caller}: {name}: {answer}; {state(path)}')
                    if result == 0 and name not in READING or name == 'rename over':  # changed, perhaps; some kernels protect what others left (fs.protected_regular)
                        path = None
    remove(root)
    os.rmdir(root)


main(sys.argv[1], *map(int, sys.argv[2:]))
