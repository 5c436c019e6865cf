"""Where the rows of a training lie: in memory, on the disk, with the workers of a cluster.

=========  ================================  ==========================================
memory     one matrix in this process        :class:`odmtool.places.memory.Memory`
disk       a cache in a directory,           :class:`odmtool.places.disk.Disk`
           ``--cache``
workers    files that the workers of a       :class:`odmtool.places.workers.Workers`
           Dask scheduler read and keep
=========  ================================  ==========================================

A command chooses one (:mod:`odmtool.cli.place_options`) and asks no more where the data are:
every place answers the same questions (:class:`odmtool.places.place.Place`). May a machine be
trained there, what do the files hold, what memory will it take, and the training itself.
"""
