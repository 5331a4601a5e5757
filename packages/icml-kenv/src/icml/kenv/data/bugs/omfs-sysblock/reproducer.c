/* OMFS: an image whose system block has 440 bytes, which is where hash buckets would start: there
 * are none, and a look-up divides by their number. */
#define _GNU_SOURCE
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHK(x)                                                                   \
  do {                                                                           \
    long result = (long)(x);                                                     \
    printf("repro: %s -> %ld errno=%d\n", #x, result, result < 0 ? errno : 0);   \
    fflush(stdout);                                                              \
  } while (0)

#define SECTOR 512
#define SYSTEM_BLOCK 440

static unsigned char image[64 * SECTOR];

static void put64(size_t at, uint64_t value) {
  value = htobe64(value);
  memcpy(image + at, &value, sizeof value);
}

static void put32(size_t at, uint32_t value) {
  value = htobe32(value);
  memcpy(image + at, &value, sizeof value);
}

static void fill(void) {
  size_t super = 256, root = SECTOR + 24, bitmap = 2 * SECTOR, directory = 3 * SECTOR;
  put64(super, 1);                  /* the root block's number */
  put64(super + 8, 64);             /* blocks */
  put32(super + 16, 0xC2993D87);    /* magic */
  put32(super + 20, SYSTEM_BLOCK);  /* block size */
  put32(super + 24, 1);             /* mirrors */
  put32(super + 28, SYSTEM_BLOCK);  /* system block size */
  put64(root + 8, 64);              /* blocks */
  put64(root + 16, 3);              /* the root directory's block */
  put64(root + 24, 2);              /* the bitmap's block */
  put32(root + 32, SYSTEM_BLOCK);   /* block size */
  put32(root + 36, 1);              /* blocks a cluster */
  put64(root + 40, 1);              /* mirrors */
  image[bitmap] = 0x0f;
  put64(directory, 3);              /* its own block */
  image[directory + 83] = 'D';      /* a directory */
  memset(image + directory + SYSTEM_BLOCK, 0xff, SECTOR - SYSTEM_BLOCK);
}

int main(void) {
  fill();
  mkdir("/tmp/mount", 0777);
  int file = open("/tmp/image", O_RDWR | O_CREAT, 0600);
  CHK(write(file, image, sizeof image));
  int loop = open("/dev/loop0", O_RDWR);
  CHK(ioctl(loop, LOOP_SET_FD, file));
  CHK(mount("/dev/loop0", "/tmp/mount", "omfs", 0, ""));
  CHK(access("/tmp/mount/x", 0));
  return 0;
}
