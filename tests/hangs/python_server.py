# A server in Python without guests.
# build: python3
# outcome: outside
# must: waits for something outside
# never: no thread of the process is left
# never: for ever
# never: can never complete
import socket
door = socket.socket()
door.bind(("127.0.0.1", 0))
door.listen()
door.accept()
