// Command dockerproxy is the only process that holds the Docker socket.
package main

func main() {}
