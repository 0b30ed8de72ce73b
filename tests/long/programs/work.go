// Goroutines that compute, grow their stacks and talk to each other. A program of its own, and a library for C (-buildmode=c-shared).
package main

import "C"

import (
	"fmt"
	"os"
	"strconv"
	"sync"
)

type node struct{ left, right *node }

func tree(depth int) *node {
	if depth == 0 {
		return &node{}
	}
	return &node{tree(depth - 1), tree(depth - 1)}
}

func (n *node) count() int {
	if n.left == nil {
		return 1
	}
	return 1 + n.left.count() + n.right.count()
}

func deep(depth int, sum int) int {
	var room [64]int
	room[depth%64] = sum
	if depth == 0 {
		return sum % 1000
	}
	return (deep(depth-1, sum*31+depth) + room[depth%64]%7) % 1000003
}

//export GoWork
func GoWork(rounds int) int {
	var group sync.WaitGroup
	results := make(chan int)
	for i := 0; i < 8; i++ {
		group.Add(1)
		go func(i int) {
			defer group.Done()
			for j := 0; j < rounds; j++ {
				results <- tree(12).count() + deep(2000, i*j)
			}
		}(i)
	}
	go func() { group.Wait(); close(results) }()
	sum := 0
	for result := range results {
		sum += result
	}
	return sum
}

func main() {
	rounds, _ := strconv.Atoi(os.Args[1])
	fmt.Println(GoWork(rounds))
}
