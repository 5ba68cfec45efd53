// A program that computes.
// build: gcc -O2 -g -pthread
// busy: yes
// outcome: moves
// never: no thread of the process is left
// never: for ever
// never: can never complete
int main(void) {
    for (volatile unsigned long i = 0;; i++)
        ;
}
