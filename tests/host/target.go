// A Go service as serve scrapes it: net/http/pprof on a free port of 127.0.0.1, which it prints; works in `spin`, holds
// `held`, contends for a lock in `contend`. It counts what it has allocated in `allocate` and answers /allocated.
package main

import (
	"fmt"
	"net"
	"net/http"
	_ "net/http/pprof"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const piece = 1 << 16

var (
	sink      []byte
	held      [][]byte
	allocated int64
	result    uint64
)

//go:noinline
func spin(n uint64) {
	for i := uint64(0); i < n; i++ {
		result += i * i
	}
}

//go:noinline
func allocate() {
	sink = make([]byte, piece)
	atomic.AddInt64(&allocated, piece)
}

//go:noinline
func contend(lock *sync.Mutex) {
	lock.Lock()
	time.Sleep(2 * time.Millisecond)
	lock.Unlock()
}

func main() {
	runtime.MemProfileRate = 1
	runtime.SetMutexProfileFraction(1)
	runtime.SetBlockProfileRate(1)
	for i := 0; i < 32; i++ {
		held = append(held, make([]byte, piece))
	}
	var lock sync.Mutex
	for i := 0; i < 3; i++ {
		go func() {
			for {
				contend(&lock)
			}
		}()
	}
	go func() {
		for {
			spin(2000000)
			for i := 0; i < 10; i++ {
				allocate()
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	http.HandleFunc("/allocated", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, atomic.LoadInt64(&allocated))
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	panic(http.Serve(listener, nil))
}
