module github.com/sallyport-dev/sallyport

go 1.22
