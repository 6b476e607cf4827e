#!/usr/bin/env python3
"""Somebody on the way between a mount and its server: meddler.py PORT SERVER SERVER-PORT HOW READY-FILE.

HOW: honest; downgrade (AUTH asks for less security), cipher (AUTH offers one cipher less), public (AUTH has another public key);
flip (a bit of the first frame after the handshake), repeat (that frame comes twice).
"""
import socket
import struct
import sys
import threading

HEADER = 28


def receive(source, length):
    data = b""
    while len(data) < length:
        piece = source.recv(length - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data


def frame(source):
    header = receive(source, HEADER)
    return bytearray(header + receive(source, struct.unpack(">II", header[20:])[0]))


def up(client, server, how):
    """AUTH and AUTH_PROVE in clear, what follows as it comes."""
    try:
        auth = frame(client)
        # After the header: u32 proto_min, proto_max, id key, hash nonce, hash public, u8 security, u8 ciphers.
        if how == "downgrade":
            auth[HEADER + 88] = 0
        elif how == "cipher":
            auth[HEADER + 89] = 1 if auth[HEADER + 89] == 3 else 3
        elif how == "public":
            auth[HEADER + 60] ^= 1
        server.sendall(auth)
        server.sendall(frame(client))
        first = bytearray(client.recv(65536))
        if how == "flip" and first:
            first[len(first) // 2] ^= 4
        server.sendall(first)
        if how == "repeat":
            server.sendall(first)
        copy(client, server)
    except (EOFError, OSError):
        pass
    finally:
        end(server)


def copy(source, target):
    while piece := source.recv(65536):
        target.sendall(piece)


def down(client, server):
    try:
        copy(server, client)
    except OSError:
        pass
    finally:
        end(client)


def end(sock):
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


def main():
    port, host, server_port, how, ready = sys.argv[1:]
    with socket.create_server(("", int(port))) as listener:
        open(ready, "w").close()
        while True:
            client, _ = listener.accept()
            server = socket.create_connection((host, int(server_port)))
            threading.Thread(target=up, args=(client, server, how), daemon=True).start()
            threading.Thread(target=down, args=(client, server), daemon=True).start()


main()
