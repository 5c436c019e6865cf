#!/bin/sh
# The steps of LIBSVM's easy.py: scale, search by the grid, train, predict.
# usage: easy.sh TRAIN TEST
set -e
svm-scale -s range "$1" > train.scale
svm-scale -r range "$2" > test.scale
svm-grid -svmtrain "$(command -v svm-train)" -log2c -1,3,4 -log2g -5,-1,4 -v 3 -gnuplot null -out grid.out train.scale > grid.log
read -r c g rate <<END
$(tail -n 1 grid.log)
END
svm-train -c "$c" -g "$g" -m 200 -h 0 -q train.scale model
svm-predict test.scale model out > log
[ "$(wc -l < grid.out)" -eq 4 ]
grep -q '^log2c=.* log2g=.* rate=' grid.out
echo "C=$c cv=$rate test=$(sed -n 's/^Accuracy = \([0-9.]*\)%.*/\1/p' log) rows=$(wc -l < out)"
