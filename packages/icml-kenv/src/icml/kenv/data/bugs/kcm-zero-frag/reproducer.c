/* AF_KCM: a send() whose copy fails right after a buffer was added to the message leaves that
 * buffer empty; the next send() that ends the message meets it. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/bpf.h>
#include <linux/kcm.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CHK(x)                                                                   \
  do {                                                                           \
    long result = (long)(x);                                                     \
    printf("repro: %s -> %ld errno=%d\n", #x, result, result < 0 ? errno : 0);   \
    fflush(stdout);                                                              \
  } while (0)

#define FULL (17 * 32768) /* bytes that fill the fragments of one buffer */
#define MORE 65536

static int connected(void) {
  struct ifreq lo = {.ifr_name = "lo"};
  int any = socket(AF_INET, SOCK_DGRAM, 0);
  ioctl(any, SIOCGIFFLAGS, &lo);
  lo.ifr_flags |= IFF_UP;
  ioctl(any, SIOCSIFFLAGS, &lo);
  struct sockaddr_in here = {AF_INET, htons(4242), {htonl(INADDR_LOOPBACK)}};
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  CHK(bind(listener, (void *)&here, sizeof here));
  CHK(listen(listener, 1));
  int client = socket(AF_INET, SOCK_STREAM, 0);
  CHK(connect(client, (void *)&here, sizeof here));
  CHK(accept(listener, NULL, NULL) >= 0);
  return client;
}

static int filter(void) { /* a program that returns 0 */
  struct bpf_insn program[] = {{.code = BPF_ALU64 | BPF_MOV | BPF_K}, {.code = BPF_JMP | BPF_EXIT}};
  union bpf_attr wanted;
  memset(&wanted, 0, sizeof wanted);
  wanted.prog_type = BPF_PROG_TYPE_SOCKET_FILTER;
  wanted.insns = (unsigned long)program;
  wanted.insn_cnt = 2;
  wanted.license = (unsigned long)"GPL";
  return syscall(SYS_bpf, BPF_PROG_LOAD, &wanted, sizeof wanted);
}

int main(void) {
  int tcp = connected(), program = filter();
  CHK(program >= 0);
  int kcm = socket(AF_KCM, SOCK_SEQPACKET, 0);
  struct kcm_attach both = {.fd = tcp, .bpf_fd = program};
  CHK(ioctl(kcm, SIOCKCMATTACH, &both));
  char *data = mmap(NULL, FULL + MORE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(data, 1, FULL);
  CHK(munmap(data + FULL, MORE));
  CHK(send(kcm, data, FULL + MORE, MSG_DONTWAIT)); /* the copy of the rest fails */
  CHK(send(kcm, data, 0, MSG_DONTWAIT | MSG_EOR));
  return 0;
}
