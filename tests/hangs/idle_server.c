// A server without guests.
// build: gcc -O2 -g -pthread
// build: gcc -O2 -g -pthread -static
// outcome: outside
// must: waits for something outside
// must: accept()
// never: no thread of the process is left
// never: for ever
// never: can never complete
#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>
int main(void) {
    int door = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in any = {.sin_family = AF_INET};
    if (bind(door, (struct sockaddr *)&any, sizeof any) || listen(door, 8))
        return 1;
    return accept(door, NULL, NULL) < 0;
}
