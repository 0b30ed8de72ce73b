#!/bin/busybox sh
# The first process of a whole machine in QEMU with BusyBox: makes a small Linux out of an initramfs with modules/*.ko, brings the
# network up, runs /job, tells the console how it ended, and switches the machine off.
#
# QEMU's user network: this machine is 10.0.2.15, the one that runs QEMU 10.0.2.2, known here as `gateway`.
/bin/busybox mkdir -p /proc /sys /tmp /etc
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /tmp
mount -t devtmpfs devtmpfs /dev
exec </dev/console >/dev/console 2>&1
for module in virtio_mmio failover net_failover virtio_net virtio_blk crc16 mbcache jbd2 crc32c_generic ext4; do
    [ ! -f /modules/$module.ko ] || insmod /modules/$module.ko
done
echo '127.0.0.1 localhost
10.0.2.2 gateway' >/etc/hosts
ifconfig lo 127.0.0.1 up
if [ -e /sys/class/net/eth0 ]; then
    ifconfig eth0 10.0.2.15 netmask 255.255.255.0 up
    route add default gw 10.0.2.2
fi
cd /tmp
sh /job
echo "@verdict $([ $? = 0 ] && echo ok || echo FAILED)"
sync
poweroff -f
