// A client sends half of a message to a server in the same process, and both wait for more.
// build: gcc -O2 -g -pthread
// build: gcc -O2 -g -pthread -static
// outcome: hung
// must: they wait for each other for ever
// must: waits in recvfrom() for socket:[
// never: outside
// never: not known
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>
static int listener;
static struct sockaddr_un address = {.sun_family = AF_UNIX};
static socklen_t length = sizeof(sa_family_t);
static char message[8], answer[8];
static void *serve(void *argument) {
    int client = accept(listener, NULL, NULL);
    recv(client, message, sizeof message, MSG_WAITALL);
    send(client, message, sizeof message, 0);
    return argument;
}
int main(void) {
    // The kernel chooses a name that is no file.
    listener = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, length))
        return 1;
    listen(listener, 1);
    length = sizeof address;
    getsockname(listener, (struct sockaddr *)&address, &length);
    pthread_t server;
    pthread_create(&server, NULL, serve, NULL);
    int end = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(end, (struct sockaddr *)&address, length))
        return 1;
    send(end, "half", 4, 0);
    recv(end, answer, sizeof answer, 0);
    return pthread_join(server, NULL);
}
