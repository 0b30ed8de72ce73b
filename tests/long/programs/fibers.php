<?php
// Twenty fibers that compute in turn: most of the CPU time is spent on their stacks.
function sum_to(int $limit): int
{
    $sum = 0;
    for ($i = 0; $i < $limit; $i++)
        $sum = ($sum * 31 + $i) % 1000003;
    return $sum;
}

function part(int $rounds): int
{
    $sum = 0;
    for ($i = 0; $i < $rounds; $i++)
        $sum += Fiber::suspend(sum_to(100000));
    return $sum;
}

$total = 0;
$fibers = [];
for ($i = 0; $i < 20; $i++) {
    $fibers[$i] = new Fiber('part');
    $total += $fibers[$i]->start(200);
}
while ($fibers)
    foreach ($fibers as $i => $fiber) {
        $got = $fiber->resume($i);
        if ($fiber->isTerminated()) {
            $total += $fiber->getReturn();
            unset($fibers[$i]);
        } else
            $total += $got;
    }
echo $total, "\n";
