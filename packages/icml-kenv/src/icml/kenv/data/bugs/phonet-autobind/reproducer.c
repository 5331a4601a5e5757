/* AF_PHONET: a pipe that was accepted by its resource has no local port; a first send() on it
 * binds one, which fails, and the kernel asserts that it cannot. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
/* after struct sockaddr, which linux/phonet.h needs */
#include <linux/netlink.h>
#include <linux/phonet.h>
#include <linux/rtnetlink.h>

#define CHK(x)                                                                   \
  do {                                                                           \
    long result = (long)(x);                                                     \
    printf("repro: %s -> %ld errno=%d\n", #x, result, result < 0 ? errno : 0);   \
    fflush(stdout);                                                              \
  } while (0)

#define DEVICE 0x10
#define PORT 0x50 /* same bucket as 0x40, the first port that the kernel gives away */
#define RESOURCE 0x42

static void interface_up(void) {
  struct ifreq lo = {.ifr_name = "lo"};
  int any = socket(AF_INET, SOCK_DGRAM, 0);
  ioctl(any, SIOCGIFFLAGS, &lo);
  lo.ifr_flags |= IFF_UP;
  CHK(ioctl(any, SIOCSIFFLAGS, &lo));
}

static void add_address(void) {
  struct {
    struct nlmsghdr head;
    struct ifaddrmsg address;
    struct rtattr attribute;
    unsigned char value[4];
  } ask = {
      .head = {sizeof ask, RTM_NEWADDR, NLM_F_REQUEST | NLM_F_ACK},
      .address = {.ifa_family = AF_PHONET, .ifa_index = if_nametoindex("lo")},
      .attribute = {RTA_LENGTH(1), IFA_LOCAL},
      .value = {DEVICE},
  };
  char answer[512];
  int netlink = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
  CHK(send(netlink, &ask, sizeof ask, 0));
  CHK(recv(netlink, answer, sizeof answer, 0) > 0);
}

int main(void) {
  interface_up();
  add_address();
  struct sockaddr_pn port = {.spn_family = AF_PHONET, .spn_obj = PORT, .spn_resource = RESOURCE};
  struct sockaddr_pn none = {.spn_family = AF_PHONET};
  struct sockaddr_pn peer = {.spn_family = AF_PHONET, .spn_dev = DEVICE, .spn_resource = RESOURCE};
  int listener = socket(AF_PHONET, SOCK_SEQPACKET, 0);
  CHK(bind(listener, (void *)&port, sizeof port));
  CHK(listen(listener, 4));
  int taken = socket(AF_PHONET, SOCK_SEQPACKET, 0);
  CHK(bind(taken, (void *)&none, sizeof none)); /* takes port 0x40 */
  int client = socket(AF_PHONET, SOCK_SEQPACKET, 0);
  fcntl(client, F_SETFL, O_NONBLOCK);
  CHK(connect(client, (void *)&peer, sizeof peer)); /* in progress */
  usleep(200000);
  fcntl(listener, F_SETFL, O_NONBLOCK);
  int accepted = accept(listener, NULL, NULL);
  CHK(accepted >= 0);
  CHK(send(accepted, "x", 1, MSG_DONTWAIT));
  return 0;
}
