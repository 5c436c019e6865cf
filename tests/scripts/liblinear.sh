#!/bin/sh
# As in many a Makefile: choose C, cross validate, train, predict, and grep the numbers.
# usage: liblinear.sh TRAIN TEST
set -e
best=$(liblinear-train -C -s 2 -v 3 "$1" | sed -n 's/^Best C = \([^ ]*\) .*/\1/p')
cv=$(liblinear-train -s 2 -c "$best" -v 3 -e 0.1 -q "$1" | awk '/Cross Validation/ { print $NF }')
liblinear-train -s 2 -c "$best" -B 1 -e 0.1 -w1 2 -q "$1" model
liblinear-predict "$2" model out > log
accuracy=$(sed -n 's/^Accuracy = \([0-9.]*\)%.*/\1/p' log)
liblinear-predict -q "$2" model again > quiet
cmp out again
[ ! -s quiet ]
echo "C=$best cv=$cv test=$accuracy rows=$(wc -l < out)"
