# What the ARM machine of `make demo BOARD=qemu-aarch64` does: tests/arm/qemu/init.sh runs it. "@step" lines are for people.
# On a busy host a second of this machine takes up to 20 of the server's, which closes a connection after 30 without a byte. So profiles
# come each second, and the load leaves time for the thread that sends them, which has a lower priority.
export ASPNETCORE_URLS=http://127.0.0.1:8080 EDGEPROF_SERVICE=sensor-gateway EDGEPROF_LEVEL=high EDGEPROF_INTERVAL=1000 \
    EDGEPROF_TAGS=version=demo EDGEPROF_TLS_CA=/tls/ca.pem EDGEPROF_TLS_CERT=/tls/device.pem EDGEPROF_TLS_KEY=/tls/device.key \
    SENSOR_BURN_PERCENT=15
echo "@step $(uname -m), Linux $(uname -r): starting the service"
SensorGateway >/tmp/service.log 2>&1 &
service=$!
for _ in $(seq 60); do
    grep -q http: /tmp/service.log && break
    sleep 1
done
echo "@step driving load for $LOAD_SECONDS s, profiles go to $EDGEPROF_ENDPOINT"
env -u EDGEPROF_ENDPOINT SensorGateway --load http://127.0.0.1:8080 --clients 1 --seconds "$LOAD_SECONDS"
loaded=$?
echo "@step stopping the service, which delivers what it has left"
kill -TERM $service
wait $service
ended=$?
cat /tmp/service.log
[ $loaded = 0 ] && [ $ended = 0 ]
